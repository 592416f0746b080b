"""The threads and the event loop that run tasks; they know how many more a child can start."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]

from ..broker.records import Lease
from .application import Application
from .board import Board
from .limits import Limits
from .run import Run

logger = logging.getLogger("django_taskq.worker")

#: Seconds between two questions to the event loop whether it still turns, and for the answer.
TURN_INTERVAL, TURN_PATIENCE = 1.0, 1.0

#: Lets a coroutine run at once as far as it comes, where Python can: that saves a round of the loop.
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}

#: Where a child hears of ended runs, and of whatever else concerns its main loop.
Inbox = SimpleQueue[Any]


class Turn:
    """A message: the event loop turns."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A message: these runs have come to their end."""

    runs: Sequence[Run]


class Pool:
    """Starts runs, and tells of each when it has ended. Only who has the child's turn calls it."""

    def __init__(
        self,
        application: Application,
        board: Board,
        inbox: Inbox,
        run_ended: Callable[[Run], None],
        child: str,
        threads: int,
        coroutines: int,
    ) -> None:
        #: Whether a thread that runs tasks calls, and looks for runs when it comes back.
        self.is_served = False
        self._board = board
        self._child = child
        self._limits = Limits()
        self._threads = Threads(application, inbox, run_ended, threads)
        self._coroutines = Coroutines(application, inbox, coroutines)
        self._is_coroutine = application.is_coroutine
        self._free_slots = list(reversed(range(board.slots)))
        #: How many coroutines have come since the last function.
        self._coroutines_in_a_row = 0

    @property
    def free_slots(self) -> int:
        """How many leases to claim: what can be started, of whichever sort they turn out to be.

        After many coroutines without a function as many more may be claimed as there were of them. So a function that
        then finds no thread, and goes back, was paid for in advance.
        """
        if self.is_blocked:
            return 0
        of_either_sort = max(self._threads.free, self._coroutines_in_a_row if self._threads.free else 0)
        return min(of_either_sort, self._coroutines.free, len(self._free_slots))

    @property
    def is_blocked(self) -> bool:
        """Whether a coroutine seems to hold up the others: the event loop doesn't answer."""
        return self._coroutines.silent_for > TURN_PATIENCE

    def lend(self, errand: Callable[[], None]) -> None:
        """Have a thread do something, once at a time, and then look for runs."""
        self._threads.lend(errand)

    def look(self) -> None:
        """See to it that a blocked event loop is noticed; call it at least once a second."""
        self._coroutines.ask()

    def turned(self) -> None:
        """Hear that the event loop has answered."""
        self._coroutines.answered()

    @property
    def is_idle(self) -> bool:
        return not self._threads.busy and not self._coroutines.busy

    def start(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Enter leases on the board and run them; return the functions for which there is no thread.

        There must be as many free slots.
        """
        functions: list[Run] = []
        coroutines: list[Run] = []
        left = []
        for lease in leases:
            is_coroutine = self._is_coroutine(lease)
            if not is_coroutine and len(functions) >= self._threads.free:
                left.append(lease)
                continue
            slot = self._free_slots.pop()
            self._board.occupy(slot, lease)
            run = Run(lease, slot, self._board, self._limits, self._child)
            run.is_coroutine = is_coroutine
            (coroutines if is_coroutine else functions).append(run)
        self._coroutines_in_a_row = 0 if functions or left else self._coroutines_in_a_row + len(coroutines)
        if functions:
            self._threads.start(functions, wakes=not self.is_served)
        if coroutines:
            self._coroutines.start(coroutines)
        return left

    def ended(self, run: Run) -> None:
        """Take back the thread or coroutine of a run; it keeps its place on the board until it is settled."""
        group = self._coroutines if run.is_coroutine else self._threads
        group.busy -= 1

    def settled(self, run: Run) -> None:
        """Take a run off the board."""
        self._board.clear(run.slot)
        self._free_slots.append(run.slot)


class Threads:
    """Threads that start when first needed and then stay: one for each run, and one that is lent.

    A thread takes run after run, and before it begins one it wakes another for those that remain. So one that takes
    long holds up nobody, and many short ones don't cost a switch of threads each.
    """

    def __init__(self, application: Application, inbox: Inbox, run_ended: Callable[[Run], None], most: int) -> None:
        self.busy = 0
        self._application = application
        self._inbox = inbox
        self._run_ended = run_ended
        self._most = most
        self._started = 0
        self._runs: deque[Run] = deque()
        #: Each wakes a thread, for an errand or just for runs.
        self._wakes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        #: Whether a wake is under way; a second one would find nothing left to do.
        self._waking = False

    @property
    def free(self) -> int:
        return self._most - self.busy

    def start(self, runs: Sequence[Run], wakes: bool) -> None:
        self.busy += len(runs)
        self._runs.extend(runs)
        self._start_threads()
        if wakes:
            self._wake()

    def lend(self, errand: Callable[[], None]) -> None:
        self._start_threads()
        self._wakes.put(errand)

    def _start_threads(self) -> None:
        while self._started <= self.busy:
            self._started += 1
            threading.Thread(target=self._serve, name=f"task-{self._started}", daemon=True).start()

    def _wake(self) -> None:
        if not self._waking:
            self._waking = True
            self._wakes.put(None)

    def _serve(self) -> None:
        application, runs, put = self._application, self._runs, self._inbox.put
        while True:
            errand = self._wakes.get()
            if errand is not None:
                errand()
            else:
                # Only now: whoever saw a wake under way before this has put its runs where they are found below.
                self._waking = False
            while runs:
                try:
                    run = runs.popleft()
                except IndexError:
                    break
                if runs:
                    self._wake()
                run.execute(application)
                if runs:
                    put(run)
                else:  # with nothing else to do
                    self._run_ended(run)
                # Or an idle thread would keep the last run and all that it refers to.
                del run


class Coroutines:
    """An event loop in a thread of its own, started when first needed; uvloop's, where that is installed."""

    def __init__(self, application: Application, inbox: Inbox, most: int) -> None:
        self.busy = 0
        self._application = application
        self._inbox = inbox
        self._most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Those that wait for something; the loop itself holds its tasks only weakly.
        self._tasks: dict[Run, asyncio.Task[None]] = {}
        #: Those that ended in this turn of the loop.
        self._ended: list[Run] = []
        #: When the loop was asked whether it turns, while it hasn't answered, and when it is asked next.
        self._asked_at: float | None = None
        self._asks_at = 0.0

    @property
    def free(self) -> int:
        return self._most - self.busy

    @property
    def silent_for(self) -> float:
        """Seconds since the loop was asked and didn't answer."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    def ask(self) -> None:
        """Ask the loop whether it turns, once in a while; one that has nothing to do is left alone."""
        now = time.monotonic()
        if self._loop is not None and self.busy and self._asked_at is None and now >= self._asks_at:
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._inbox.put, Turn())

    def answered(self) -> None:
        self._asked_at, self._asks_at = None, time.monotonic() + TURN_INTERVAL

    def start(self, runs: list[Run]) -> None:
        self.busy += len(runs)
        if self._loop is None:
            self._loop = uvloop.new_event_loop() if uvloop else asyncio.new_event_loop()
            threading.Thread(target=self._serve, args=(self._loop,), name="coroutines", daemon=True).start()
        self._loop.call_soon_threadsafe(self._create_tasks, self._loop, runs)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # A task of asyncio's own, one that a user's coroutine started, raised it. Whoever awaits that has
                # it as well; here it must not end the loop, on which the others run.
                logger.warning("A coroutine tried to end the process", exc_info=True)

    def _create_tasks(self, loop: asyncio.AbstractEventLoop, runs: list[Run]) -> None:
        for run in runs:
            # Each in a context of its own, as create_task makes one.
            task = asyncio.Task(self._execute(loop, run), loop=loop, **_EAGER)
            if not task.done():
                self._tasks[run] = task

    async def _execute(self, loop: asyncio.AbstractEventLoop, run: Run) -> None:
        await run.aexecute(self._application)
        self._tasks.pop(run, None)
        if not self._ended:
            loop.call_soon(self._tell)
        self._ended.append(run)

    def _tell(self) -> None:
        """Tell the main loop of all that ended in one turn of this one at once."""
        self._ended, ended = [], self._ended
        self._inbox.put(Ended(ended))
