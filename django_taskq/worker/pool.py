"""The threads and the event loop that run tasks; they know how many more a child can start."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from ..broker.records import Lease
from .application import Application
from .board import Board
from .limits import Limits
from .run import Run

logger = logging.getLogger("django_taskq.worker")

#: Seconds between two questions to the event loop whether it still turns, and for the answer.
TURN_INTERVAL, TURN_PATIENCE = 1.0, 1.0

#: Where a child hears of ended runs, and of whatever else concerns its main loop.
Inbox = SimpleQueue[Any]


class Turn:
    """A message: the event loop turns."""


class Pool:
    """Starts runs and puts each into the inbox when it has ended. Only the main loop calls it."""

    def __init__(
        self, application: Application, board: Board, inbox: Inbox, child: str, threads: int, coroutines: int
    ) -> None:
        self._board = board
        self._child = child
        self._limits = Limits()
        self._threads = Threads(application, inbox, threads)
        self._coroutines = Coroutines(application, inbox, coroutines)
        self._is_coroutine = application.is_coroutine
        self._free_slots = list(reversed(range(board.slots)))

    @property
    def free_slots(self) -> int:
        """How many leases can be started, of whichever sort they turn out to be."""
        if self.is_blocked:
            return 0
        return min(self._threads.free, self._coroutines.free, len(self._free_slots))

    @property
    def is_blocked(self) -> bool:
        """Whether a coroutine seems to hold up the others: the event loop doesn't answer."""
        return self._coroutines.silent_for > TURN_PATIENCE

    def look(self) -> None:
        """See to it that a blocked event loop is noticed; call it at least once a second."""
        self._coroutines.ask()

    def turned(self) -> None:
        """Hear that the event loop has answered."""
        self._coroutines.answered()

    @property
    def is_idle(self) -> bool:
        return not self._threads.busy and not self._coroutines.busy

    def start(self, leases: Sequence[Lease]) -> None:
        """Enter leases on the board and run them; there must be as many free slots."""
        functions, coroutines = [], []
        for lease in leases:
            slot = self._free_slots.pop()
            self._board.occupy(slot, lease)
            run = Run(lease, slot, self._board, self._limits, self._child)
            if self._is_coroutine(lease):
                run.is_coroutine = True
                coroutines.append(run)
            else:
                functions.append(run)
        if functions:
            self._threads.start(functions)
        if coroutines:
            self._coroutines.start(coroutines)

    def ended(self, run: Run) -> None:
        """Take back the thread or coroutine of a run; it keeps its place on the board until it is settled."""
        group = self._coroutines if run.is_coroutine else self._threads
        group.busy -= 1

    def settled(self, run: Run) -> None:
        """Take a run off the board."""
        self._board.clear(run.slot)
        self._free_slots.append(run.slot)


class Threads:
    """Threads that start when first needed and then stay.

    A thread takes run after run, and before it begins one it wakes another for those that remain. So one that takes
    long holds up nobody, and many short ones don't cost a switch of threads each.
    """

    def __init__(self, application: Application, inbox: Inbox, most: int) -> None:
        self.busy = 0
        self._application = application
        self._inbox = inbox
        self._most = most
        self._started = 0
        self._runs: deque[Run] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        #: Whether a wake is under way; a second one would find nothing left to do.
        self._waking = False

    @property
    def free(self) -> int:
        return self._most - self.busy

    def start(self, runs: Sequence[Run]) -> None:
        self.busy += len(runs)
        self._runs.extend(runs)
        while self._started < self.busy:
            self._started += 1
            threading.Thread(target=self._serve, name=f"task-{self._started}", daemon=True).start()
        self._wake()

    def _wake(self) -> None:
        if not self._waking:
            self._waking = True
            self._wakes.put(None)

    def _serve(self) -> None:
        application, runs, put = self._application, self._runs, self._inbox.put
        while True:
            self._wakes.get()
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
                put(run)
                # Or an idle thread would keep the last run and all that it refers to.
                del run


class Coroutines:
    """An event loop in a thread of its own, started when first needed."""

    def __init__(self, application: Application, inbox: Inbox, most: int) -> None:
        self.busy = 0
        self._application = application
        self._inbox = inbox
        self._most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
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
            self._loop = asyncio.new_event_loop()
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
            task = loop.create_task(self._execute(run))
            # The loop itself holds its tasks only weakly.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _execute(self, run: Run) -> None:
        await run.aexecute(self._application)
        self._inbox.put(run)
