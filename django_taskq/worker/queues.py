"""Which queues a worker serves."""

from __future__ import annotations

import time

from ..broker.broker import Broker
from ..broker.inspector import Inspector
from .settings import Settings

#: Seconds between two looks at which queues there are, where none are named.
LOOK_INTERVAL = 2.0


class Queues:
    """The queues in strict order: those that are named, or all that were ever used."""

    def __init__(self, settings: Settings, broker: Broker) -> None:
        self._broker = broker
        self._excluded = settings.excluded
        self._named = bool(settings.queues)
        self._looked = float("-inf")
        self.names = self._without_excluded(settings.queues)

    def look(self) -> bool:
        """Look whether there are other queues by now, at most every two seconds; tell whether there are."""
        now = time.monotonic()
        if self._named or now - self._looked < LOOK_INTERVAL:
            return False
        self._looked = now
        before = self.names
        self.names = self._without_excluded(Inspector(self._broker).queues())
        return self.names != before

    def _without_excluded(self, names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in self._excluded)
