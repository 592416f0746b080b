"""Renew the leases of all children in one call: a child that is busy needn't."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from ..broker.broker import Broker
from .board import Board

logger = logging.getLogger("django_taskq.worker")


class Renewal:
    """Keeps the leases on the boards alive, and writes there what Redis says about each."""

    def __init__(self, broker: Broker, lease: float, boards: Callable[[], Iterable[Board]]) -> None:
        self._broker = broker
        self._lease = lease
        self._boards = boards

    def work(self) -> float:
        """Renew everything once."""
        sent_at = time.monotonic()
        leases = [(board, held) for board in self._boards() for held in board.leases()]
        words = self._broker.renew([(held.id, held.queue, held.token) for _, held in leases], round(self._lease * 1000))
        for (board, held), word in zip(leases, words, strict=True):
            if word == "LOST":
                # A lease that was settled meanwhile isn't lost, and its slot may hold the next one.
                if board.holds(held) and board.lose(held):
                    logger.info("The lease of %s was lost while it ran", held.id)
                continue
            board.renewed(held, sent_at + self._lease)
            if word == "CANCEL":
                board.ask_to_cancel(held)
        return max(0.0, sent_at + self._lease / 3 - time.monotonic())
