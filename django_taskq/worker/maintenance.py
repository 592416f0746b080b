"""What any worker does for the queue as a whole, one small duty each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..broker.broker import Broker
from ..broker.exceptions import TaskqError
from ..broker.inspector import Inspector
from ..broker.records import Lease
from .application import Application
from .endings import Ending
from .exceptions import LeaseExpired
from .outcomes import Failed, Released, Succeeded, after_crash, to_settlement
from .rows import Rows

logger = logging.getLogger("django_taskq.worker")

#: Seconds from one look at lapsed leases to the next, at least.
SHORTEST_SLEEP = 0.01
#: Seconds until rows are tried again that the database didn't take, for each page of them.
ROW_PAUSE = 1.0
#: Leases that are read at once. Where many are passed over more are read: their ids go along each time.
PAGE, LARGEST_PAGE = 100, 1000
#: Leases that are passed over because of their rows, in one look.
MOST_WAITING = 20_000


class Presence:
    """Tells that this worker is there. Nothing is decided by it."""

    def __init__(self, broker: Broker, worker: str, lease: float, describe: Callable[[], Mapping[str, str]]) -> None:
        self._broker = broker
        self._worker = worker
        self._lease = lease
        self._describe = describe

    def work(self) -> float:
        self._broker.heartbeat(self._worker, self._describe(), round(self._lease * 3000))
        return self._lease / 3

    def leave(self) -> None:
        """Take the presence away, if Redis answers."""
        try:
            self._broker.heartbeat(self._worker, {}, round(self._lease * 3000))
        except TaskqError:
            pass


class Reaper:
    """Ends attempts whose lease has lapsed, of any worker and in any queue.

    Who holds a lease renews it first when Redis was away for all; so a reaper holds back after it was, and
    after its own start, and when it stood still itself.
    """

    def __init__(self, application: Application, lease: float) -> None:
        self._application = application
        self._broker = application.broker
        self._inspector = Inspector(self._broker)
        self._rows = Rows(application.rows)
        self._lease = lease
        self._was_away = False
        self._looked_at = time.monotonic()
        self._not_before = self._looked_at + lease / 3

    def work(self) -> float:
        """Reap what has lapsed, and return the seconds until the next lapse."""
        now = time.monotonic()
        stood_still, self._looked_at = now - self._looked_at > self._lease, now
        try:
            self._broker.ping()
            if self._was_away or stood_still:
                self._was_away = False
                self._not_before = time.monotonic() + self._lease
            pause = self._not_before - time.monotonic()
            return min(pause, self._lease / 3) if pause > 0 else self._look()
        except TaskqError:
            self._was_away = True
            raise

    def _look(self) -> float:
        queues = self._inspector.queues()
        self._rows.correct()
        waiting: list[str] = []
        pause = self._lease / 3
        while queues:
            limit = max(PAGE, min(len(waiting), LARGEST_PAGE))
            expired = self._broker.expired(queues, limit, besides=waiting)
            waiting += self._reap(expired.leases)
            if expired.next_lapse_ms is None or len(waiting) >= MOST_WAITING:
                break
            if expired.next_lapse_ms > 0:
                pause = max(SHORTEST_SLEEP, min(expired.next_lapse_ms / 1000, pause))
                break
        return min(ROW_PAUSE * max(1, len(waiting) / LARGEST_PAGE), pause) if waiting else pause

    def _reap(self, leases: Sequence[Lease]) -> list[str]:
        """End the attempts of lapsed leases; return the ids of those that wait for their row."""
        endings = [Ending(lease, self._outcome(lease), cancelled=lease.cancel_requested) for lease in leases]
        ready, again = self._rows.judge(endings)
        self._tell([self._lapsed(ending) for ending in ready])
        self._rows.correct()
        self._rows.rest()
        return [ending.lease.id for ending in again]

    def _lapsed(self, ending: Ending) -> Ending:
        """Return an ending that is refused where the lease was renewed meanwhile, as a release wouldn't be."""
        if not isinstance(ending.outcome, Released):
            return ending
        return replace(ending, outcome=replace(self._outcome(ending.lease), delay_ms=0))

    def _tell(self, endings: Sequence[Ending]) -> None:
        settlements = [to_settlement(ending.lease, ending.outcome, lapsed=True) for ending in endings]
        words, _ = self._broker.exchange([settlement for settlement in settlements if settlement], None)
        for ending, word in zip(endings, words, strict=True):
            lease, outcome = ending.lease, ending.outcome
            self._rows.heed(ending, word)
            if word != "DONE":
                continue
            how = "succeeded, as its row says" if isinstance(outcome, Succeeded) else "failed"
            logger.warning("The lease of %s has lapsed; its attempt %d has %s", lease.id, lease.attempt, how)
            if isinstance(outcome, Failed) and outcome.delay_ms is None:
                self._application.buried(lease, outcome.error)

    def _outcome(self, lease: Lease) -> Failed:
        outcome = after_crash(lease, LeaseExpired)
        # One that was asked to end does, with whatever settles it.
        return Failed(outcome.error, 0, outcome.result_ttl_ms) if lease.cancel_requested else outcome
