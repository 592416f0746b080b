"""Rows of what has ended: written before Redis is told, corrected when Redis says otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from ..broker.records import AttemptError, Lease, State
from .application import RowStore
from .endings import Ending, NotRecorded
from .outcomes import Failed, Succeeded, Unsaved

logger = logging.getLogger("django_taskq.worker")

#: Seconds for which a row is tried again while its lease is renewed; then the record is buried without it.
PATIENCE = 60.0
REASON = "result not saved"

_REFUSED = ("LEASE_LOST", "HELD")


class Rows:
    """What one duty, or one child, has to do with rows; without a store that is nothing."""

    def __init__(self, store: RowStore | None) -> None:
        self._store = store
        #: Why the last rows weren't written.
        self.error: NotRecorded | None = None
        #: When each row that isn't written was tried first.
        self._since: dict[tuple[str, int], float] = {}
        #: Endings whose rows may be wrong, and since when that is known.
        self._wrong: list[tuple[Ending, float]] = []

    def write(self, endings: Sequence[Ending]) -> tuple[list[Ending], list[Ending]]:
        """Write the rows; return the endings to tell Redis now, and those to bring again.

        One that was brought for too long is told as what it then is, a burial.
        """
        wanting = [ending for ending in endings if self.wants(ending)]
        if self._store is None or not wanting:
            return [*endings], []
        recorded = self._store.write(wanting)
        self.error = recorded.error
        if self.error is None:
            self._since.clear()
            if len(wanting) == len(endings):
                return [*recorded.endings], []
        told = {ending.key: ending for ending in recorded.endings}
        now, ready, again = time.monotonic(), [], []
        for ending in endings:
            if ending.key in told or self.error is None or ending.lease.id not in self.error.ids:
                ready.append(told.get(ending.key, ending))
            # Where a row has the last word, Redis is told nothing without it.
            elif is_fenced(ending.lease) or now - self._since.setdefault(ending.key, now) < PATIENCE:
                again.append(ending)
            else:
                del self._since[ending.key]
                ready.append(given_up(ending, self.error))
        return ready, again

    def judge(self, endings: Sequence[Ending]) -> tuple[list[Ending], list[Ending]]:
        """As `write`, for leases that nobody answers for: one whose row says that it succeeded has.

        While a row can't be read nothing may be said of its lease.
        """
        asked = [ending for ending in endings if self.keeps(ending.lease)]
        if self._store is None or not asked:
            return [*endings], []
        read = self._store.read(asked)
        told = {ending.key: ending for ending in read.endings}
        is_open = {ending.key for ending in asked} - told.keys()
        ready, again = self.write([told.get(ending.key, ending) for ending in endings if ending.key not in is_open])
        self.error = read.error or self.error
        return ready, [*again, *(ending for ending in asked if ending.key in is_open)]

    def probe(self) -> None:
        """See whether rows are taken again."""
        try:
            if self._store is not None:
                self._store.probe()
            self.error = None
        except NotRecorded as error:
            self.error = error

    def rest(self) -> None:
        """Let go of what nobody needs while nothing is written."""
        if self._store is not None:
            self._store.rest()

    def keeps(self, lease: Lease) -> bool:
        """Tell whether a record has a row when it has ended."""
        return self._store is not None and self._store.keeps(lease)

    def wants(self, ending: Ending) -> bool:
        """Tell whether the row of an ending is to be written."""
        return ending.state is not None and self.keeps(ending.lease) and not _is_recorded(ending)

    @property
    def has_wrong(self) -> bool:
        """Whether rows are still to be set right."""
        return bool(self._wrong)

    def heed(self, ending: Ending, word: str) -> None:
        """Note an ending if Redis's answer contradicts the row that was written for it, or not written."""
        if self.is_wrong(ending, word):
            self.note_wrong(ending)

    def is_wrong(self, ending: Ending, word: str) -> bool:
        if word == "CANCELLED":
            differs = ending.state is not State.CANCELLED
        else:
            differs = word in _REFUSED and ending.state is not None
        return differs and self.keeps(ending.lease) and not (is_fenced(ending.lease) and _is_recorded(ending))

    def note_wrong(self, ending: Ending) -> None:
        self._wrong.append((ending, time.monotonic()))

    def correct(self) -> int:
        """Set right the rows that were noted as wrong; return how many are done with."""
        wrong = self._wrong
        if self._store is None or not wrong:
            return 0
        try:
            self._store.correct([ending for ending, _ in wrong])
            self._wrong, self.error = [], None
        except NotRecorded as error:
            self.error = error
            self._wrong = [(ending, noted) for ending, noted in wrong if time.monotonic() - noted < PATIENCE]
            if lost := len(wrong) - len(self._wrong):
                logger.error("%d rows may differ from Redis: %s", lost, error)
        return len(wrong) - len(self._wrong)


def is_fenced(lease: Lease) -> bool:
    """Tell whether a record has had a row since it was enqueued, which has the last word."""
    return lease.head.record_alias is not None


def _is_recorded(ending: Ending) -> bool:
    return isinstance(ending.outcome, Succeeded) and ending.outcome.is_recorded


def given_up(ending: Ending, error: NotRecorded) -> Ending:
    """Return the ending of a record whose row could not be written in time."""
    logger.error("%s is buried without its row: %s", ending.lease.id, error)
    outcome = ending.outcome
    if isinstance(outcome, Succeeded):
        cause = type(error.cause)
        described = AttemptError(f"{cause.__module__}.{cause.__qualname__}", str(error), reason=REASON)
        return replace(ending, outcome=Unsaved(described, outcome.log_json, outcome.result_ttl_ms))
    assert isinstance(outcome, Failed)
    described = replace(outcome.error, reason=outcome.error.reason or REASON)
    return replace(ending, outcome=replace(outcome, error=described))
