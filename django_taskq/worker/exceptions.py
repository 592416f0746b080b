"""What a task may raise to say how it ends, and what is recorded when its worker ends first.

::

    TimeoutError
    └── TaskTimeout          it ran longer than its time limit
    TaskSignal
    ├── Retry                run me again
    └── Bury                 never run me again
    TaskqError
    ├── UnknownTask          no worker knew its name
    ├── Cancelled            a person had ended it
    └── Crash
        ├── LeaseExpired     nobody renewed its lease: the whole worker or machine is gone
        ├── WorkerLost       its process died while it ran
        └── WorkerStalled    its process stood still and was killed
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from ..broker.exceptions import TaskqError

#: A hundred years, after which Redis's scores and Python's dates are no longer sure.
MOST_SECONDS = 3_155_760_000


class TaskTimeout(TimeoutError):
    """The task ran longer than its time limit.

    Raised inside the task, once. A task that catches it and returns within the grace of 5 seconds keeps its
    result; one that is still running then is killed with its process, and the attempt has failed.
    """

    #: What is recorded when it had to be killed.
    reason: ClassVar[str] = "time limit"

    def __str__(self) -> str:
        return super().__str__() or "The task ran longer than its time limit."


class TaskSignal(Exception):
    """A task says how its attempt ends."""


class Retry(TaskSignal):
    """Fail this attempt and run the task again, `after` seconds or a timedelta from now; None: as its backoff says."""

    #: For subclasses that don't call this class's __init__, as `Bury.reason`.
    after: float | None = None

    def __init__(self, after: float | timedelta | None = None) -> None:
        if isinstance(after, timedelta):
            after = after.total_seconds()
        try:
            is_usable = after is None or 0 <= after <= MOST_SECONDS
        except TypeError:
            raise TypeError(f"Retry takes a number of seconds or a timedelta, not {after!r}.") from None
        if not is_usable:
            raise ValueError(f"Retry takes a number of seconds from 0 to {MOST_SECONDS}, not {after!r}.")
        self.after = after
        super().__init__("The task asked to be retried" + (f" after {after} s." if after is not None else "."))


class Bury(TaskSignal):
    """Make the task a dead letter, whatever attempts it has left."""

    reason: str = ""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task asked to be buried.")


class UnknownTask(TaskqError):
    """No worker knew this task, or this version of it, for as long as `unknown_ttl`."""


class Cancelled(TaskqError):
    """Its row says that the task was cancelled, before it ran or while it did."""

    def __str__(self) -> str:
        return super().__str__() or "The task was cancelled."


class Crash(TaskqError):
    """The attempt ended without an answer from the task."""

    reason: ClassVar[str] = ""


class LeaseExpired(Crash):
    """The lease wasn't renewed in time: the worker, its machine or its connection was lost."""

    reason = "lease expired"


class WorkerLost(Crash):
    """The process that ran the task died."""

    reason = "worker lost"


class WorkerStalled(Crash):
    """The process that ran the task stood still for longer than --stall-timeout and was killed."""

    reason = "worker stalled"
