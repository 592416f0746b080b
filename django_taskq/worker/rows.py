"""Rows of what has ended: written before Redis is told, corrected when Redis says otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from ..broker.records import AttemptError, State
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
        try:
            self._store.write(wanting)
        except NotRecorded as error:
            self.error = error
        else:
            self.error = None
            self._since.clear()
            return [*endings], []
        now, ready, again = time.monotonic(), [], []
        for ending in endings:
            key = ending.lease.id, ending.lease.token
            if ending.state is None or ending.lease.id not in self.error.ids:
                ready.append(ending)
            elif now - self._since.setdefault(key, now) < PATIENCE:
                again.append(ending)
            else:
                del self._since[key]
                ready.append(given_up(ending, self.error))
        return ready, again

    def judge(self, endings: Sequence[Ending]) -> tuple[list[Ending], list[Ending]]:
        """As `write`, for leases that nobody answers for: one whose row says that it succeeded has.

        Raises `NotRecorded` while rows can't be read; then nothing may be said of these leases.
        """
        if self._store is None or not endings:
            return [*endings], []
        succeeded = self._store.succeeded([ending.lease for ending in endings])
        known = [replace(ending, outcome=succeeded[key]) for ending in endings if (key := ending.lease.id) in succeeded]
        ready, again = self.write([ending for ending in endings if ending.lease.id not in succeeded])
        return known + ready, again

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

    def wants(self, ending: Ending) -> bool:
        """Tell whether an ending has a row."""
        return self._store is not None and ending.state is not None

    def heed(self, ending: Ending, word: str) -> None:
        """Note an ending if Redis's answer contradicts the row that was written for it, or not written."""
        if self.is_wrong(ending, word):
            self.note_wrong(ending)

    def is_wrong(self, ending: Ending, word: str) -> bool:
        if self._store is None:
            return False
        if word == "CANCELLED":
            return ending.state is not State.CANCELLED
        return word in _REFUSED and ending.state is not None

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
