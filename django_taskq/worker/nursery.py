"""Keep as many children as were asked for: start, watch, recycle and replace them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .application import Connect
from .board import Board
from .children import ChildProcess, Context
from .exceptions import TaskTimeout, WorkerLost, WorkerStalled
from .recovery import Recovery
from .settings import Settings

logger = logging.getLogger("django_taskq.worker")

#: Seconds after its time limit at which a task that still runs is killed with its process.
LIMIT_GRACE = 5.0
#: Starts in a row that may fail before any child was ever ready.
MOST_FAILED_STARTS = 5
#: Seconds before a start that follows a failed one, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
#: A child of fewer seconds that dies is replaced after FIRST_PAUSE, lest one after the other dies as fast as it can.
YOUNG = 1.0
#: Processes that run a suspect alone, at a time: a long task mustn't hold up many, and each takes its memory.
MOST_ALONE = 8
#: Seconds that an order to stop may take a child that holds nothing.
IDLE_PATIENCE = 0.3
#: Seconds that a child may take to exit after its main loop has ended.
EXIT_PATIENCE = 5.0


class CannotStart(Exception):
    """Children can't be started here; the message says why."""


class Nursery:
    """The children of one worker. Only the supervisor's main loop changes them."""

    def __init__(
        self, context: Context, settings: Settings, connect: Connect, recovery: Recovery, look: Callable[[], None]
    ) -> None:
        self.children: list[ChildProcess] = []
        self._context = context
        self._settings = settings
        self._connect = connect
        self._recovery = recovery
        self._look = look
        self._failed_starts = 0
        self._starts_at = 0.0
        self._was_ever_ready = False

    @property
    def boards(self) -> list[Board]:
        """Every board on which there may be leases."""
        return [*(child.board for child in [*self.children]), *self._recovery.boards]

    @property
    def serving(self) -> list[ChildProcess]:
        return [child for child in self.children if not child.is_leaving and not child.is_alone]

    @property
    def is_ready(self) -> bool:
        serving = self.serving
        return len(serving) >= self._settings.processes and all(child.is_ready for child in serving)

    def fill(self) -> None:
        """Start what is missing, unless a child failed to start or died young a moment ago."""
        processes = self._settings.processes
        present = sum(not child.is_alone for child in self.children)
        # Those that leave may be long about it: at most one generation of them stays beside those that serve.
        missing = min(processes - len(self.serving), 2 * processes - present)
        if time.monotonic() < self._starts_at:
            return
        if self._failed_starts:
            missing = min(missing, 1)
        for _ in range(missing):
            self._start(ChildProcess(self._context, self._settings, self._connect))

    def replace_all(self) -> None:
        """Stop all children, for the code has changed, and wait no longer after a failed start."""
        self._failed_starts, self._starts_at = 0, 0.0
        for child in self.serving:
            child.stop(self._settings.reload_timeout)

    def run_suspects(self) -> None:
        """Start a process for each suspect, some at a time."""
        while sum(child.is_alone for child in self.children) < MOST_ALONE:
            if (suspect := self._recovery.next_suspect()) is None:
                return
            self._start(ChildProcess(self._context, self._settings, self._connect, (suspect.lease,)))
            suspect.child.board.clear(suspect.held.slot)

    def _start(self, child: ChildProcess) -> None:
        self.children.append(child)
        child.start(self._look)

    def collect(self) -> bool:
        """Hand over those that are gone; tell whether there were any."""
        gone = [child for child in self.children if child.is_gone]
        for child in gone:
            self._note_start(child)
            how = child.close()
            # Handed over first, and only then forgotten: its leases are on one of the two lists all the time.
            self._recovery.add(child)
            self.children.remove(child)
            if not child.board.done and child.told_at is None:
                logger.error("Child %s %s", child.id, how)
        return bool(gone)

    def _note_start(self, child: ChildProcess) -> None:
        """Count starts that failed in a row, so that a faulty project doesn't keep a machine busy."""
        if child.told_at is not None and child.cause is None:
            return
        if child.is_ready:
            if child.age < YOUNG and not child.board.done:
                self._starts_at = time.monotonic() + FIRST_PAUSE
            return
        self._failed_starts += 1
        pause = min(FIRST_PAUSE * 2 ** (self._failed_starts - 1), LONGEST_PAUSE)
        self._starts_at = time.monotonic() + pause
        if not self._was_ever_ready and self._failed_starts >= max(MOST_FAILED_STARTS, self._settings.processes + 1):
            raise CannotStart(f"{self._failed_starts} children in a row ended before they were ready")

    def watch(self) -> bool:
        """End the children that are beyond a limit; tell whether one has become ready."""
        now, are_new = time.monotonic(), False
        for child in self.children:
            if child.is_gone:
                continue
            if child.is_ready:
                if child.became_ready():
                    self._failed_starts, self._was_ever_ready, are_new = 0, True, True
                self._watch_ready(child, now)
            elif child.age > self._settings.ready_timeout and child.told_at is None:
                if not child.is_started:
                    raise CannotStart(f"child {child.id} could not be started within {child.age:.0f} s")
                logger.error("Child %s wasn't ready after %.0f s; replacing it", child.id, child.age)
                child.end(WorkerLost)
        return are_new

    def _watch_ready(self, child: ChildProcess, now: float) -> None:
        if child.board.done:
            child.deadline = child.deadline or now + EXIT_PATIENCE
        stall = self._settings.stall_timeout
        if any(child.board.overdue(now - LIMIT_GRACE)):
            late = [*child.board.overdue(now)]
            # It is killed again until it is gone, and told of once.
            if child.cause is not TaskTimeout:
                ids = ", ".join(each.id for each in late)
                logger.error("Killing child %s: %s ran on after the time limit", child.id, ids)
            child.end(TaskTimeout, late)
        elif stall and child.stood_still_for() > stall and not child.board.done:
            if child.cause is not WorkerStalled:
                logger.error("Killing child %s: it stood still for %.0f s", child.id, stall)
            child.end(WorkerStalled)
        elif (child.deadline is not None and now > child.deadline) or self._waits_for_nothing(child, now):
            child.end(None)

    def _waits_for_nothing(self, child: ChildProcess, now: float) -> bool:
        """Tell whether only Redis keeps it from ending; what it claimed meanwhile is found and given back."""
        was_told = child.told_at is not None and now > child.told_at + IDLE_PATIENCE
        return was_told and child.board.is_empty and not child.board.done
