"""Keep rows of what has ended: nothing overwrites a newer one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db import connections, reset_queries, router
from django.db.backends.base.base import BaseDatabaseWrapper

from . import registry, rows
from .broker.broker import Broker
from .broker.exceptions import UnreadableRecord
from .broker.inspector import Inspector
from .broker.records import Lease, Record
from .models import TaskRecord
from .outbox import record_aliases
from .results import moment
from .rows import Row
from .upsert import Rule
from .verdicts import ENDED, Verdicts, success
from .worker.endings import Ending, NotRecorded, Recorded
from .writing import tidy, write_finished


class Recorder:
    """Keeps the rows of one backend: of all its tasks, or only of those that have had one since they were enqueued."""

    def __init__(self, alias: str, broker: Broker, *, keeps_all: bool = True) -> None:
        self.keeps_all = keeps_all
        self._alias = alias
        self._inspector = Inspector(broker)
        self._verdicts = Verdicts(alias, broker)

    def keeps(self, lease: Lease) -> bool:
        """Tell whether a record has a row when it has ended: a remote task has none, whoever ends it."""
        if lease.head.record_alias is not None:
            return True
        try:
            return self.keeps_all and not registry.is_remote(lease.envelope.name)
        except UnreadableRecord:
            return True

    def write(self, endings: Sequence[Ending]) -> Recorded:
        """Write the rows of records that are about to end."""
        known = self._known(endings)
        plain, fenced = _sorted(endings)
        try:
            return _together(self._write(plain, known), self._verdicts.close(fenced, known))
        finally:
            reset_queries()

    def read(self, endings: Sequence[Ending]) -> Recorded:
        """Ask the rows of leases whether these ended already: a plain one tells only of a success under its token."""
        plain, fenced = _sorted(endings)
        try:
            return _together(self._read(plain), self._verdicts.read(fenced))
        finally:
            reset_queries()

    def correct(self, endings: Sequence[Ending]) -> None:
        """Make the rows of endings that Redis refused say what it holds, or raise `NotRecorded`.

        A record that goes on has no row, unless it has had one from the start: what was written is taken back.
        """
        ended = []
        records = self._inspector.records([ending.lease.id for ending in endings])
        for ending, record in zip(endings, records, strict=True):
            if record is None:
                continue
            if ending.lease.head.record_alias is not None:
                self._verdicts.correct(ending, record)
            elif record.state in ENDED:
                ended.append(rows.from_record(record, self._alias))
            elif ending.state:
                _take_back(rows.from_ending(ending, self._alias, record))
        write_finished(ended, rule=Rule.OVERRULE)

    def probe(self) -> None:
        """See whether the database of all rows takes some, or one of those of single tasks; or raise `NotRecorded`."""
        cause: Exception | None = None
        for alias in {router.db_for_write(TaskRecord)} if self.keeps_all else record_aliases(False) & {*connections}:
            try:
                # No record has such an id; where nothing may be written, this is refused all the same.
                TaskRecord.objects.using(alias).filter(pk="").update(token=0)
                return
            except Exception as error:
                cause = error
            finally:
                tidy(connections[alias])
        if cause is not None:
            raise NotRecorded([], cause) from cause

    def rest(self) -> None:
        """Do nothing for a while: connections that Django would close after a request are closed."""
        for connection in connections.all(initialized_only=True):
            tidy(connection)

    def _write(self, endings: Sequence[Ending], known: dict[str, Record]) -> Recorded:
        finished: list[Row] = []
        failures: dict[str, BaseException] = {}
        for ending in endings:
            try:
                finished.append(rows.from_ending(ending, self._alias, known.get(ending.lease.id)))
            except Exception as error:  # it must not cost the others their results
                failures[ending.lease.id] = error
        try:
            write_finished(finished)
        except NotRecorded as error:
            failures |= dict.fromkeys(error.ids, error.cause)
        if not failures:
            return Recorded(endings)
        written = [ending for ending in endings if ending.lease.id not in failures]
        return Recorded(written, NotRecorded([*failures], next(iter(failures.values()))))

    def _read(self, endings: Sequence[Ending]) -> Recorded:
        if not endings:
            return Recorded([])
        connection = _connection()
        ids = [ending.lease.id for ending in endings]
        said = TaskRecord.objects.using(connection.alias).filter(pk__in=ids, status=TaskRecord.Status.SUCCEEDED)
        try:
            found = {(pk, token): result for pk, token, result in said.values_list("pk", "token", "result")}
        except Exception as error:
            return Recorded([], NotRecorded(ids, error))
        finally:
            tidy(connection)
        return Recorded(
            [
                replace(ending, outcome=success(ending.lease, found[ending.key])) if ending.key in found else ending
                for ending in endings
            ]
        )

    def _known(self, endings: Sequence[Ending]) -> dict[str, Record]:
        """Return what Redis holds of those whose lease doesn't tell all that belongs into the row."""
        ids = [ending.lease.id for ending in endings if ending.lease.attempt > 1 or ending.child is None]
        return {record.id: record for record in self._inspector.records(ids) if record is not None}


def _connection() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(TaskRecord)]


def _sorted(endings: Sequence[Ending]) -> tuple[list[Ending], list[Ending]]:
    """Return the endings of records without a row so far, and those of the others."""
    plain: list[Ending] = []
    fenced: list[Ending] = []
    for ending in endings:
        (plain if ending.lease.head.record_alias is None else fenced).append(ending)
    return plain, fenced


def _together(one: Recorded, other: Recorded) -> Recorded:
    errors = [recorded.error for recorded in (one, other) if recorded.error is not None]
    error = NotRecorded([key for each in errors for key in each.ids], errors[0].cause) if errors else None
    return Recorded([*one.endings, *other.endings], error)


def _take_back(row: Row) -> None:
    """Delete a row if it is still the one that was written here."""
    written = {"pk": row.id, "token": row.token, "status": row.status, "finished_at": moment(row.finished_at or 0)}
    try:
        TaskRecord.objects.using(_connection().alias).filter(**written).delete()
    except Exception as error:
        raise NotRecorded([row.id], error) from error
