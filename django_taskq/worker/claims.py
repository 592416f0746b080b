"""When a child claims, and how a claim whose answer was lost is asked again."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from ..broker.records import Claim, Claimed, Lease
from .board import Board

logger = logging.getLogger("django_taskq.worker")


class Claims:
    """The claims of one child. One is under way at most; it keeps its nonce until it is answered."""

    def __init__(self, child: str, board: Board, lease_ms: int) -> None:
        self._child = child
        self._board = board
        self._lease_ms = lease_ms
        #: Whether there may be work that nobody claims.
        self.hungry = True
        #: When the next scheduled record is due, by `time.monotonic`.
        self.due_at: float | None = None
        #: A later claim was made in this child's name; it must not claim again.
        self.stale = False
        self._under_way: Claim | None = None
        #: Whether a claim of nothing is to follow, which wakes another.
        self._leaves = False
        self._nonce = 0

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None or self._leaves

    def leave(self) -> None:
        """Claim no more, and wake another for what may be waiting, or for the time that was watched here."""
        self._leaves = (self.hungry or self.due_at is not None) and not self.stale

    def request(self, count: int, queues: tuple[str, ...]) -> Claim | None:
        """Return the claim to send: the one under way, or a new one for `count` leases; None for none.

        One under way that nothing is wanted of any more is repeated all the same: Redis then leases nothing
        new, and what it leased before can be given back.
        """
        leaves, self._leaves = self._leaves, False
        if self._under_way is not None:
            return replace(self._under_way, count=0) if count <= 0 else self._under_way
        if count <= 0 and not leaves:
            return None
        self._nonce += 1
        # First the board, then Redis: if this process dies in between, its supervisor knows what to ask about.
        self._board.nonce = self._nonce
        self._board.idle = 0
        self._under_way = Claim(self._child, self._nonce, count, self._lease_ms, queues)
        return self._under_way

    def answered(self, claimed: Claimed) -> Sequence[Lease]:
        """Take the answer, and return the leases."""
        asked, self._under_way = self._under_way, None
        if claimed.stale:
            logger.error("Child %s: another claim was made in its name; it claims no more", self._child)
            self.stale = True
            return ()
        self.hungry = asked is not None and len(claimed.leases) >= asked.count
        due_ms = claimed.next_due_ms
        self.due_at = None if due_ms is None else time.monotonic() + due_ms / 1000
        return claimed.leases

    def look_at_clock(self) -> None:
        """Become hungry when a scheduled record is due."""
        if self.due_at is not None and time.monotonic() >= self.due_at:
            self.due_at = None
            self.hungry = True

    def mark_idle(self) -> None:
        """Tell the supervisor that after the last claim there was nothing to do."""
        self._board.idle = self._nonce + 1
