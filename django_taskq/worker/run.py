"""One leased record on its way through a child."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext

from ..broker.exceptions import UnreadableRecord
from ..broker.records import AttemptError, Lease
from .application import Application
from .board import Board
from .endings import Ending
from .exceptions import TaskTimeout
from .limits import Limits, ThreadLimit
from .outcomes import Outcome, Released, failed

logger = logging.getLogger("django_taskq.worker")

_UNLIMITED = nullcontext()


class Run:
    """A lease, its slot on the board and, in the end, its outcome. To the task it is the `Control`."""

    __slots__ = ("_board", "_limits", "child", "ending", "is_coroutine", "lease", "outcome", "slot")

    outcome: Outcome

    def __init__(self, lease: Lease, slot: int, board: Board, limits: Limits, child: str) -> None:
        self.lease = lease
        self.slot = slot
        self.child = child
        self.is_coroutine = False
        #: How it ended, for its row.
        self.ending: Ending | None = None
        self._board = board
        self._limits = limits

    @property
    def lease_lost(self) -> bool:
        return self._board.is_lost(self.slot, self.lease)

    @property
    def cancel_requested(self) -> bool:
        return self._board.is_cancelled(self.slot, self.lease)

    def limit(self) -> AbstractContextManager[object]:
        seconds = self._seconds()
        return _UNLIMITED if seconds is None else ThreadLimit(self._limits, self._board, self.slot, seconds)

    def alimit(self) -> AbstractAsyncContextManager[object]:
        seconds = self._seconds()
        return _UNLIMITED if seconds is None else self._timeout(seconds)

    def execute(self, application: Application) -> None:
        """Run a function in this thread, to an outcome."""
        if self._may_begin():
            try:
                self.outcome = application.perform(self.lease, self)
            except BaseException as error:
                self.outcome = self._failed(error)
        self._board.end(self.slot)

    async def aexecute(self, application: Application) -> None:
        """Run a coroutine function in this event loop, to an outcome."""
        if self._may_begin():
            self._limit_on_board()
            try:
                self.outcome = await application.aperform(self.lease, self)
            except BaseException as error:
                self.outcome = self._failed(error)
        self._board.end(self.slot)

    def _may_begin(self) -> bool:
        """Begin, unless the lease may have lapsed meanwhile; what hasn't begun goes back."""
        if self._board.is_lost(self.slot, self.lease):
            self.outcome = Released()
            return False
        self._board.begin(self.slot)
        return True

    def _failed(self, error: BaseException) -> Outcome:
        """Return the outcome of a run for which the application broke its word never to raise."""
        logger.exception("Running %s failed outside the task", self.lease.id)
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        message = "The worker failed outside the task."
        return failed(self.lease, AttemptError(path, message, traceback.format_exc(), "worker error"))

    def _seconds(self) -> float | None:
        try:
            milliseconds = self.lease.envelope.timeout_ms
        except UnreadableRecord:
            return None
        return None if milliseconds is None else milliseconds / 1000

    def _limit_on_board(self) -> None:
        """Let the supervisor enforce the limit of a coroutine, until the run has ended.

        What surrounds the body counts as well: it may wait for a thread that coroutines share and that is stuck.
        """
        if (seconds := self._seconds()) is not None:
            self._board.limit(self.slot, time.monotonic() + seconds)

    @asynccontextmanager
    async def _timeout(self, seconds: float) -> AsyncIterator[None]:
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                self._limit_on_board()
                yield
        except TimeoutError as error:
            if deadline.expired():
                raise TaskTimeout from error
            raise
