"""Run one leased task: the only place where a user's code runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from . import hygiene, registry, results
from .announcements import aannounce, announce, is_heard
from .attempt import Attempt, Known
from .backend import RedisBackend
from .broker.broker import Broker
from .broker.exceptions import UnknownVersion, UnreadableRecord
from .broker.records import AttemptError, Lease
from .compat import signals, task_backends
from .conf import Options
from .effects import Effects
from .failures import describe
from .outbox import database_of
from .pruning import Pruning
from .recording import Recorder
from .repair import Repair
from .task import BackgroundTask, RemoteTask
from .verdicts import Verdicts
from .worker.application import Control
from .worker.exceptions import UnknownTask
from .worker.forks import Body
from .worker.outcomes import Failed, Outcome, Released, Succeeded

logger = logging.getLogger("django_taskq.worker")

#: Milliseconds by which the delay of an unknown task grows with each release, and at most.
UNKNOWN_STEP_MS, UNKNOWN_CAP_MS = 5_000, 60_000


class Application:
    """What the worker knows of Django: this project's tasks, under one backend."""

    def __init__(self, alias: str, sender: type, conf: Options, broker: Broker) -> None:
        self.broker = broker
        self.rows = Recorder(alias, broker, keeps_all=conf.keeps_records)
        self.duties: dict[str, Callable[[], float]] = {"repair": Repair(alias, sender, conf, broker).work}
        if conf.records_ttl is not None:
            self.duties["pruning"] = Pruning(alias, conf.records_ttl, conf.keeps_records).work
        self._alias = alias
        self._sender = sender
        self._unknown_ttl_ms = conf.unknown_ttl_ms
        self._most_bytes = conf.max_payload_bytes
        self._known: dict[tuple[str, str | None], Known] = {}
        self._verdicts = Verdicts(alias, broker)
        self._effects = Effects(alias, broker, self._verdicts, conf.max_payload_bytes)

    @classmethod
    def connect(cls, alias: str) -> Application:
        """Make the application of a backend, in the process that runs its tasks."""
        backend = task_backends[alias]
        if not isinstance(backend, RedisBackend):
            raise TypeError(f"The backend {alias!r} is no RedisBackend.")
        hygiene.watch_connections()
        return cls(alias, type(backend), backend.conf, backend.broker)

    def is_coroutine(self, lease: Lease) -> bool:
        """Tell whether a task belongs on the event loop."""
        try:
            known = self._find(lease)
        except (UnreadableRecord, registry.NotATask):
            return False
        return known is not None and known.is_coroutine

    def perform(self, lease: Lease, control: Control) -> Outcome:
        """Run a function; whatever it raises is an outcome."""
        hygiene.before_task()
        try:
            attempt = self._prepare(lease, control)
            if not isinstance(attempt, Attempt):
                return attempt
            if lease.head.record_alias is not None and (known := self._verdicts.begin(lease, control.child)):
                return known
            if is_heard(signals.task_started, logging.INFO):
                announce(signals.task_started, self._sender, attempt.result)
            try:
                outcome = self._run(attempt, control)
            except BaseException as error:
                failed = attempt.failed(error)
                # Told in here, for receivers look for the exception in sys.exc_info().
                if attempt.is_to_be_told(failed):
                    announce(signals.task_finished, self._sender, attempt.result)
                return failed
            if isinstance(outcome, Succeeded) and attempt.is_to_be_told(outcome):
                announce(signals.task_finished, self._sender, attempt.result)
            return outcome
        finally:
            hygiene.after_task()

    async def aperform(self, lease: Lease, control: Control) -> Outcome:
        """See perform(), for a coroutine function."""
        if hygiene.is_due_for_coroutines():
            await hygiene.around_coroutine()
        try:
            attempt = self._prepare(lease, control)
            if not isinstance(attempt, Attempt):
                return attempt
            if lease.head.record_alias is not None:
                known = await sync_to_async(self._verdicts.begin)(lease, control.child)
                if known is not None:
                    return known
            if is_heard(signals.task_started, logging.INFO):
                await aannounce(signals.task_started, self._sender, attempt.result)
            try:
                attempt.refuse_transaction()
                if attempt.envelope.timeout_ms is None:
                    with Body():
                        value = await attempt.call()
                else:
                    value = await self._limited(attempt, control)
                succeeded = attempt.succeeded(value, self._most_bytes)
            except BaseException as error:
                failed = attempt.failed(error)
                if attempt.is_to_be_told(failed):
                    await aannounce(signals.task_finished, self._sender, attempt.result)
                return failed
            if attempt.is_to_be_told(succeeded):
                await aannounce(signals.task_finished, self._sender, attempt.result)
            return succeeded
        finally:
            if hygiene.is_due_for_coroutines():
                await hygiene.around_coroutine()

    def buried(self, lease: Lease, error: AttemptError) -> None:
        """Send `task_finished` for a task that was buried without being run."""
        if not is_heard(signals.task_finished, logging.ERROR):
            return
        hygiene.before_task()
        try:
            known = self._find(lease)
        except (UnreadableRecord, registry.NotATask):
            known = None
        try:
            task = None if known is None else known.task
            result = results.from_lease(lease, task, alias=self._alias, child="")
            results.fail(result, error)
            announce(signals.task_finished, self._sender, result)
        finally:
            hygiene.after_task()

    def _run(self, attempt: Attempt, control: Control) -> Outcome:
        """Run a body to what it comes to; raise what it raises."""
        if attempt.envelope.atomic is not None and attempt.lease.head.record_alias is not None:
            return self._effects.run(attempt, attempt.envelope.atomic)
        if attempt.database is None:
            return self._call(attempt, control)
        with transaction.atomic(using=attempt.database):
            return self._call(attempt, control)

    def _call(self, attempt: Attempt, control: Control) -> Succeeded:
        # A fork must leave neither the limit nor anything else that surrounds the body.
        with control.limit(), Body():
            value = attempt.call()
        return attempt.succeeded(value, self._most_bytes)

    async def _limited(self, attempt: Attempt, control: Control) -> Any:
        """Run the body of a coroutine function within its time limit."""
        async with control.alimit():
            with Body():
                return await attempt.call()

    def _find(self, lease: Lease) -> Known | None:
        """Return the task of a lease; None for one that nobody here knows."""
        envelope = lease.envelope
        path = envelope.meta.get("path")
        key = envelope.name, path if isinstance(path, str) else None
        known = self._known.get(key)
        if known is None and (task := registry.find(*key)) is not None:
            database = database_of(task) if isinstance(task, BackgroundTask) and task.atomic else None
            known = self._known[key] = Known(task, task.func, iscoroutinefunction(task.func), database)
        return known

    def _prepare(self, lease: Lease, control: Control) -> Attempt | Outcome:
        """Return the attempt, or the outcome of a record that can't be run here."""
        try:
            known = self._find(lease)
        except UnknownVersion as error:
            return self._unknown(lease, str(error))
        except UnreadableRecord as error:
            return self._bury(lease, describe(error, "unreadable record"))
        except registry.NotATask as error:
            return self._bury(lease, describe(error, "no task"))
        if known is None:
            return self._unknown(lease, f"No task {lease.envelope.name!r} is known here")
        if isinstance(known.task, RemoteTask):
            return self._unknown(lease, f"The remote task {lease.envelope.name!r} isn't run here")
        return Attempt(known, lease, self._alias, control)

    def _unknown(self, lease: Lease, why: str) -> Outcome:
        """Give back what a newer release may know, until nobody knew it for too long."""
        if (lease.unknown_ms or 0) >= self._unknown_ttl_ms:
            return self._bury(lease, describe(UnknownTask(f"{why}, nor was it elsewhere."), "unknown task"))
        delay_ms = min(UNKNOWN_STEP_MS * (lease.releases + 1), UNKNOWN_CAP_MS)
        logger.warning("%s: %s goes back for %d s", why, lease.id, delay_ms / 1000)
        return Released(delay_ms, unknown=True)

    def _bury(self, lease: Lease, error: AttemptError) -> Failed:
        self.buried(lease, error)
        return Failed(error, None)
