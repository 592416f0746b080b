"""A child: it claims as many leases as it can start, runs them, and settles what has ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty

from ..broker.exceptions import BrokerError, OutOfMemory, TaskqError
from ..broker.records import Lease
from ..broker.settlements import Release, Settlement
from .application import Application
from .board import Board
from .claims import Claims
from .lifetime import Lifetime
from .outage import Outage
from .outcomes import to_settlement
from .pool import Ended, Inbox, Pool, Turn
from .queues import Queues
from .row_writer import RowWriter, Written
from .run import Run
from .settings import Settings
from .waiter import Waiter, Woken

logger = logging.getLogger("django_taskq.worker")

#: Seconds after which the main loop moves, whatever happens.
TICK = 1.0
#: Leases in one claim at most: while Redis and we are busy with many, what has ended waits to be settled.
LARGEST_CLAIM = 100


class Stop:
    """A message: claim no more, and end when all that runs has ended."""


class Look:
    """A message: there is something to do sooner than the main loop thinks."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A message: a thread that did the main loop's work met an error, which must end the child as one of the loop."""

    error: BaseException


Message = Run | Ended | Written | Woken | Turn | Stop | Look | Broken


class Child:
    """The main loop of a child. Its state belongs to who has the turn: the loop, while it doesn't wait for a message,
    or a thread that brings one just then. All others put theirs into the inbox.
    """

    def __init__(self, child: str, settings: Settings, application: Application, board: Board, inbox: Inbox) -> None:
        self._inbox = inbox
        self._turn = threading.Lock()
        #: When the main loop looks again by itself.
        self._waits_until = 0.0
        self._burst = settings.burst
        # What a claim leased without our hearing of it must be asked about before it lapses.
        self._broker = application.broker.hastier(settings.patience)
        self._board = board
        self._pool = Pool(application, board, inbox, self._offer, child, settings.threads, settings.coroutines)
        rows = application.rows
        self._row_writer = None if rows is None else RowWriter(rows, self._inbox, f"Child {child}")
        self._waiter = Waiter(self._broker, self._pool.lend, self._offer)
        self._claims = Claims(child, board, settings.lease_ms)
        self._queues = Queues(settings, self._broker)
        self._lifetime = Lifetime(settings)
        self._outage = Outage(logger, f"Child {child}")
        self._stopping = False
        #: What Redis must be told, and the run that it is about, if that stands on the board.
        self._outbox: list[tuple[Settlement, Run | None]] = []
        #: The queue whose marker was popped and not followed by a claim yet.
        self._marker: str | None = None
        #: When Redis may be tried again.
        self._resume_at = 0.0

    def run(self, adopted: Sequence[Lease] = ()) -> None:
        """Serve until told to stop; with `adopted` leases, run those and claim nothing."""
        if adopted:
            self._stopping = True
            self._board.retiring = 1
            if self._row_writer is not None:
                self._row_writer.runs_adopted = True
            self._pool.start(adopted)
        self._board.ready = 1
        message: Message | None = None
        while True:
            with self._turn:
                self._go_on(message)
                message = None  # or what a run refers to would be kept while we wait
                if self._is_done():
                    break
                seconds = self._patience()
                self._waits_until = time.monotonic() + seconds
            message = self._receive(seconds)
        self._board.done = 1

    def _offer(self, message: Run | Woken) -> None:
        """Go on with a message in the thread that brings it, unless another is at it.

        That saves two changes of threads, for it also runs the first task that it claims.
        """
        if not self._turn.acquire(blocking=False):
            self._inbox.put(message)
            return
        try:
            self._pool.is_served = True
            self._go_on(message)
            if time.monotonic() + self._patience() < self._waits_until:
                self._inbox.put(Look())
        except BaseException as error:
            self._inbox.put(Broken(error))
        finally:
            self._pool.is_served = False
            self._turn.release()

    def _go_on(self, message: Message | None) -> None:
        """Take what there is to hear, and talk to Redis about it."""
        if message is not None:
            self._hear(message)
        while not self._inbox.empty():
            with suppress(Empty):  # the main loop may take one meanwhile
                self._hear(self._inbox.get(False))
        if self._row_writer is not None:
            self._row_writer.hand_over()
        self._look_around()
        if time.monotonic() >= self._resume_at:
            self._talk()

    def _is_done(self) -> bool:
        # While Redis is away nobody waits for the answer to a claim: the supervisor asks about it when it can.
        unanswered = (self._claims.is_under_way or self._marker is not None) and not self._outage.lasts
        return self._stopping and self._is_idle and not self._outbox and not unanswered

    @property
    def _is_idle(self) -> bool:
        """Whether nothing runs, and no row is missing of what ran."""
        return self._pool.is_idle and (self._row_writer is None or not self._row_writer.pending)

    def _patience(self) -> float:
        """Return how many seconds the loop may wait for a message."""
        now = time.monotonic()
        if self._resume_at > now:
            return min(self._resume_at - now, TICK)
        if self._outbox or self._claims.is_under_way or self._marker is not None or self._wanted():
            return 0
        due_at = self._claims.due_at
        return TICK if due_at is None else max(0, min(due_at - now, TICK))

    def _receive(self, seconds: float) -> Message | None:
        """Wait for a message."""
        try:
            message: Message = self._inbox.get(seconds > 0, seconds)
            return message
        except Empty:
            return None

    def _hear(self, message: Message) -> None:
        match message:
            case Run():
                self._ended(message)
            case Ended(runs):
                for run in runs:
                    self._ended(run)
            case Written(count, runs) if self._row_writer is not None:
                self._row_writer.pending -= count
                for run in runs:
                    self._settle(run)
                # Only now may there be nothing left to do.
                self._claims.hungry |= self._burst
            case Woken(queue):
                self._waiter.waits = False
                self._claims.hungry = True
                self._marker = queue
            case Turn():
                self._pool.turned()
            case Stop():
                self._stopping = True
            case Broken(error):
                raise error

    def _ended(self, run: Run) -> None:
        self._pool.ended(run)
        if self._row_writer is None or not self._row_writer.take(run):
            self._settle(run)
        self._claims.hungry |= self._burst

    def _settle(self, run: Run) -> None:
        """Let Redis be told how a run ended, at the next opportunity."""
        settlement = to_settlement(run.lease, run.outcome)
        if settlement is None:
            self._pool.settled(run)
        else:
            self._outbox.append((settlement, run))

    def _look_around(self) -> None:
        """Notice what only time brings."""
        self._pool.look()
        if not self._pool.is_blocked:  # or the supervisor shall see this child stand still
            self._board.loops += 1
        self._claims.look_at_clock()
        self._stopping |= self._lifetime.is_over or self._claims.stale
        if self._stopping and not self._board.retiring:
            self._board.retiring = 1
            self._claims.leave()

    def _wanted(self) -> int:
        """Return how many leases to claim."""
        if self._stopping or not self._claims.hungry or not self._queues.names:
            return 0
        if self._row_writer is not None and self._row_writer.is_away:
            return 0
        return min(self._lifetime.at_most(self._pool.free_slots), LARGEST_CLAIM)

    def _talk(self) -> None:
        """Tell Redis what has ended and ask it for work, or wait until it answers again."""
        try:
            # Not in a thread that may have a run to begin.
            if not self._pool.is_served and not self._stopping and self._queues.look():
                self._claims.hungry = True
            if not self._queues.names:
                self._claims.mark_idle()
            self._exchange()
            if self._marker is not None:
                # It was popped and no claim followed, so another must be woken.
                self._broker.arm(self._marker)
                self._marker = None
        except TaskqError as error:
            self._resume_at = time.monotonic() + self._outage.failed(error)
            return
        if self._outage.over():
            self._claims.hungry = True
        idle_hands = not self._stopping and not self._claims.hungry and self._pool.free_slots > 0
        if idle_hands and not self._waiter.waits:
            self._waiter.ask(self._queues.names)

    def _exchange(self) -> None:
        """Settle all that has ended and claim as many as can be started, in one round trip."""
        claim = self._claims.request(self._wanted(), self._queues.names)
        if not self._outbox and claim is None:
            return
        try:
            words, claimed = self._broker.exchange([settlement for settlement, _ in self._outbox], claim)
        except OutOfMemory:
            raise
        except BrokerError:
            if not self._outbox:
                raise
            self._settle_singly()
            return
        for (settlement, run), word in zip(self._outbox, words, strict=True):
            self._settled(settlement, run, word)
        self._outbox.clear()
        if claimed is not None:
            self._marker = None
            self._take(self._claims.answered(claimed))

    def _take(self, leases: Sequence[Lease]) -> None:
        if not leases and not self._stopping and self._is_idle:
            self._claims.mark_idle()
        left = leases if self._stopping else self._pool.start(leases)
        if len(left) < len(leases):
            self._lifetime.started(len(leases) - len(left))
        if left:
            self._outbox += [(Release(lease), None) for lease in left]
            self._claims.hungry = True

    def _settle_singly(self) -> None:
        """Settle one after the other, and leave alone the one that Redis refuses: its lease will lapse."""
        while self._outbox:
            settlement, run = self._outbox[0]
            try:
                word = self._broker.exchange([settlement], None)[0][0]
            except OutOfMemory:
                raise
            except BrokerError:
                logger.exception("Redis refused the outcome of %s", settlement.lease.id)
                word = "REFUSED"
            self._settled(settlement, run, word)
            del self._outbox[0]

    def _settled(self, settlement: Settlement, run: Run | None, word: str) -> None:
        if word in ("LEASE_LOST", "ORPHANED"):
            logger.warning("The lease of %s was lost, so its %s doesn't count", settlement.lease.id, settlement.script)
        if run is not None:
            if self._row_writer is not None:
                self._row_writer.heed(run, word)
            self._pool.settled(run)
