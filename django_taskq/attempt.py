"""One attempt at a task: its call, and what its end means."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import results
from .announcements import is_heard
from .arguments import LoneSurrogate, to_json, without_surrogates
from .broker.envelope import dump_json
from .broker.records import AttemptError, Lease
from .compat import Task, TaskResult, signals
from .context import BackgroundContext
from .failures import describe
from .task import as_background
from .worker.application import Control
from .worker.exceptions import MOST_SECONDS, Bury, Retry
from .worker.outcomes import Failed, Succeeded, failed

logger = logging.getLogger("django_taskq.worker")

#: Characters of an exception's text in a log line.
_SHOWN = 200
_NONE_JSON = dump_json({"result": None})
_NOT_KEPT_JSON = dump_json({})


@dataclass(frozen=True, slots=True)
class Known:
    """A task, with what is asked about it each time that it runs."""

    task: Task
    function: Callable[..., Any]
    is_coroutine: bool
    database: str | None = None  # In which its effects are one transaction.


class Attempt:
    """One attempt; the result that others see of it is made when somebody looks."""

    def __init__(self, known: Known, lease: Lease, alias: str, control: Control) -> None:
        self.lease = lease
        self.envelope = lease.envelope
        self.control = control
        self._task = known.task
        self._function = known.function
        #: The database of an atomic task, also of one that was enqueued by who can't keep the row that goes with it.
        self.database = known.database
        self._alias = alias
        self._value: Any = None

    @cached_property
    def result(self) -> TaskResult:
        return results.from_lease(self.lease, self._task, alias=self._alias, child=self.control.child)

    def call(self) -> Any:
        """Call the function; of a coroutine function, return the coroutine."""
        args = self.envelope.args
        if self._task.takes_context:
            context = BackgroundContext(
                task_result=self.result,
                fencing_token=self.lease.token,
                idempotency_key=self.lease.head.key,
                watch=self.control,
            )
            args = [context, *args]
        return self._function(*args, **self.envelope.kwargs)

    def refuse_transaction(self) -> None:
        """Raise for a coroutine function that was enqueued as a function that runs in a transaction."""
        if self.envelope.atomic is not None:
            raise TypeError(f"{self._task.name} was enqueued with atomic, and a coroutine runs in no transaction.")

    def succeeded(self, value: Any, most_bytes: int) -> Succeeded:
        """Return the outcome of a call that returned; raise when what it returned can't be kept."""
        log_json = _NONE_JSON
        if value is not None:
            self._value = self._as_json(value)
            log_json = dump_json({"result": self._value})
            if len(log_json) > most_bytes:
                raise ValueError(
                    f"The result of {self._task.name} takes {len(log_json)} bytes, and max_payload_bytes is "
                    f"{most_bytes}. Store it elsewhere and return a reference."
                )
        ttl_ms = self.envelope.result_ttl_ms
        return Succeeded(log_json if ttl_ms else _NOT_KEPT_JSON, ttl_ms)

    def _as_json(self, value: Any) -> Any:
        """Return what can be kept of a result; text that is none doesn't undo what the task has done."""
        what = f"The result of {self._task.name}"
        try:
            return to_json(value, what)
        except LoneSurrogate:
            return to_json(without_surrogates(value), what)

    def failed(self, error: BaseException) -> Failed:
        """Return the outcome of a call that raised."""
        described = describe(error, str(error.reason or "") if isinstance(error, Bury) else "")
        outcome = failed(self.lease, described)
        if outcome.delay_ms is not None:
            delay_ms = self._delay_ms(error, outcome.delay_ms)
            outcome = Failed(described, delay_ms, outcome.result_ttl_ms)
        self._log(outcome)
        return outcome

    def is_to_be_told(self, outcome: Succeeded | Failed) -> bool:
        """Write the end of the task into its result; tell whether this is its end and anybody listens."""
        if isinstance(outcome, Succeeded):
            if not is_heard(signals.task_finished, logging.INFO):
                return False
            results.succeed(self.result, self._value)
            return True
        # A retry ends a task that was asked to end.
        is_last = outcome.delay_ms is None or self.control.cancel_requested
        if not is_last or not is_heard(signals.task_finished, logging.ERROR):
            return False
        results.fail(self.result, outcome.error)
        return True

    def _delay_ms(self, error: BaseException, by_policy: int) -> int | None:
        """Return the milliseconds until the next attempt as the task wants it, or None for no other."""
        task = as_background(self._task)
        if isinstance(error, (Bury, *task.bury_on)):
            return None
        try:
            if isinstance(error, Retry):
                return by_policy if error.after is None else _milliseconds(error.after)
            if not isinstance(error, task.retry_on):
                return None
            if not callable(task.backoff):
                return by_policy
            seconds = task.backoff(error, self.result)
            return None if seconds is None else _milliseconds(seconds)
        except Exception:
            logger.exception("The delay that %s chose can't be used; the backend's backoff is", self._task.name)
            return by_policy

    def _log(self, outcome: Failed) -> None:
        what = "no other follows" if outcome.delay_ms is None else f"the next in {outcome.delay_ms / 1000:.1f} s"
        number, shown = self.lease.attempt, _shown(outcome.error)
        logger.warning("Attempt %d of %s (%s) failed, %s: %s", number, self.lease.id, self._task.name, what, shown)


def _milliseconds(seconds: float) -> int:
    """Return a delay that a task chose, a hundred years at most; raise where it is none."""
    if not seconds >= 0:  # NaN isn't either
        raise ValueError(f"A delay is a number of seconds from 0, not {seconds!r}.")
    return round(min(seconds, MOST_SECONDS) * 1000)


def _shown(error: AttemptError) -> str:
    return f"{error.error.rpartition('.')[2]}: {error.message[:_SHOWN]}".encode(errors="backslashreplace").decode()
