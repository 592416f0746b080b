"""Runs that came to their end: what may need a row before Redis is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..broker.exceptions import TaskqError
from ..broker.records import Lease, State
from .outcomes import Failed, Outcome, Succeeded


class NotRecorded(TaskqError):
    """The database didn't take the rows of some records; `ids` are theirs."""

    def __init__(self, ids: Sequence[str], cause: BaseException) -> None:
        self.ids = frozenset(ids)
        self.cause = cause
        super().__init__(f"The database takes no rows ({type(cause).__name__}: {cause})".rstrip())


# Not frozen: making one would take twice as long, for each task.
@dataclass(unsafe_hash=True, slots=True)
class Ending:
    """How the run of a lease ended."""

    lease: Lease
    outcome: Outcome
    #: The child that claimed it; None where only Redis knows.
    child: str | None = None
    #: Whether it was asked to end, so that no retry or burial does anything else.
    cancelled: bool = False
    #: In ms, by the clock of this machine.
    ended_at: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    @property
    def key(self) -> tuple[str, int]:
        """What names its lease."""
        return self.lease.id, self.lease.token

    @property
    def state(self) -> State | None:
        """The state that the record ends in; None when it goes on."""
        if isinstance(self.outcome, Succeeded):
            return State.SUCCEEDED
        if not isinstance(self.outcome, Failed):
            return None
        if self.cancelled:
            return State.CANCELLED
        return State.DEAD if self.outcome.delay_ms is None else None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of asking rows, or of writing them."""

    #: Each as its row says that it ended, for a row may know better.
    endings: Sequence[Ending]
    #: Names the others, about which nothing may be said now.
    error: NotRecorded | None = None
