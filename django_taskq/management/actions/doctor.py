"""`manage.py taskq doctor`: find out whether the queue can do its work, and say what to do where it can't."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta

from django.core.management.base import CommandError
from django.utils import timezone

from ... import registry
from ...broker.examination import Finding, Level, examine
from ...broker.exceptions import TaskqError
from ...broker.inspector import Inspector
from ...broker.urls import mask_url
from ...models import TaskRecord
from ...outbox import backlog, record_aliases
from ...tables import remedy, table_problem
from ...task import RemoteTask
from ..application import load_project
from .base import Action

#: Names in one line.
_MOST_NAMED = 5
#: A row that waits for longer than this to be asked about is seen by no worker.
_PATIENCE = timedelta(seconds=60)


class Doctor(Action):
    help = "Find out whether Redis, the databases and the workers are as they should be."

    def run(self) -> None:
        load_project()  # for the tasks that have rows of their own
        findings = [*self._redis(), *self._rows()]
        lines = [line for finding in findings for line in _lines(finding)]
        self.say("\n".join(lines), backend=self.backend.alias, findings=[asdict(finding) for finding in findings])
        failed = sum(finding.level is Level.FAIL for finding in findings)
        if failed:
            raise CommandError(f"{failed} of {len(findings)} findings {'is' if failed == 1 else 'are'} FAIL.")

    def _redis(self) -> Iterator[Finding]:
        conf = self.backend.conf
        broker = self.backend.broker
        where = f"{mask_url(conf.url)}, namespace {conf.namespace!r}"
        try:
            broker.ping()
            yield Finding(Level.OK, "connection", where)
            yield from examine(broker)
            yield from self._work(Inspector(broker))
        except TaskqError as error:
            advice = "See to it that Redis runs and listens there, and that the option url is right."
            yield Finding(Level.FAIL, "connection", f"{where}: {error}", advice)

    def _work(self, inspector: Inspector) -> Iterator[Finding]:
        """Yield what there is to say about who works, and what waits for nobody."""
        workers = inspector.workers()
        if workers:
            yield Finding(Level.OK, "workers", f"{len(workers)} seen: {_named([each['name'] for each in workers])}")
        else:
            yield Finding(Level.WARN, "workers", "none was seen", "Start one: manage.py runtaskworker")
        waiting = {name: counts.ready + counts.scheduled for name, counts in inspector.counts().items()}
        unserved = [name for name in waiting if waiting[name] and not any(_serves(each, name) for each in workers)]
        if unserved:
            text = f"{_tasks(sum(waiting[name] for name in unserved))} where no worker serves: {_named(unserved)}"
            remote = {task.queue_name for task in registry.tasks() if isinstance(task, RemoteTask)}
            start = "the program that works on them" if remote.issuperset(unserved) else "a worker with --queues"
            advice = f"Start {start}, or end them: manage.py taskq queue purge NAME"
            yield Finding(Level.WARN, "queues", text, advice)
        else:
            total = sum(waiting.values())
            yield Finding(
                Level.OK, "queues", f"{_tasks(total)}, all where a worker serves" if total else "nothing waits"
            )

    def _rows(self) -> Iterator[Finding]:
        aliases = sorted(record_aliases(self.backend.conf.keeps_records))
        if not aliases:
            yield Finding(Level.OK, "records", "none are kept in a database")
        for alias in aliases:
            try:
                problem = table_problem(alias)
            except Exception as error:  # whatever a driver says of a server that is away
                advice = "See to it that it runs, and that DATABASES is right. Until then no task with a row ends."
                yield Finding(Level.FAIL, "records", f"{alias!r} can't be reached: {error}".rstrip(), advice)
                continue
            if problem:
                yield Finding(Level.FAIL, "records", f"{alias!r}: {problem}", remedy(alias))
                continue
            yield Finding(Level.OK, "records", f"{alias!r} has the table")
            yield self._outbox(alias)

    def _outbox(self, alias: str) -> Finding:
        found = backlog(self.backend.alias, alias)
        text = f"{found.open:,} open in {alias!r}, {found.due:,} of them due"
        if found.oldest is not None:
            text += f", the oldest since {_span(found.oldest)}"
        waiting = TaskRecord.objects.using(alias).filter(backend=self.backend.alias)
        if waiting.filter(repair_at__lt=timezone.now() - _PATIENCE).exists():
            advice = "A worker pushes what Redis doesn't have: see to it that one runs, and look into its log."
            return Finding(Level.WARN, "outbox", text, advice)
        return Finding(Level.OK, "outbox", text)


def _serves(worker: Mapping[str, str], queue: str) -> bool:
    """Tell whether a worker says that it serves a queue; one that names none serves all but those it excludes."""
    named = worker.get("queues", "")
    listed = f",{queue}," in f",{named or worker.get('excluded', '')},"  # a name may hold commas
    return listed if named else not listed


def _tasks(count: int) -> str:
    return "1 task waits" if count == 1 else f"{count:,} tasks wait"


def _span(age: timedelta) -> str:
    seconds = int(age.total_seconds())
    return (
        f"{seconds:,} s" if seconds < 120 else f"{seconds // 60:,} min" if seconds < 7200 else f"{seconds // 3600:,} h"
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.level:<5} {finding.subject:<12} {finding.text}"
    if finding.advice:
        yield f"{'':<18} {finding.advice}"
