"""Wait while Redis can't be reached, and say so now and then."""

from __future__ import annotations

import logging
import random
import time

#: Seconds between two messages about one outage.
MESSAGE_INTERVAL = 60.0
#: Seconds to wait after the first failure, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


class Outage:
    """Count the failures in a row of one connection."""

    def __init__(
        self, logger: logging.Logger, who: str, longest_pause: float = LONGEST_PAUSE, what: str = "Redis"
    ) -> None:
        self._logger = logger
        self._who = who
        self._what = what
        self._longest_pause = longest_pause
        self._failures = 0
        self._since = 0.0
        self._told = 0.0

    @property
    def lasts(self) -> bool:
        return self._failures > 0

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._since if self.lasts else 0.0

    def failed(self, error: Exception) -> float:
        """Return the seconds to wait before the next try: growing, with jitter."""
        now = time.monotonic()
        if not self._failures:
            self._since = now
        self._failures += 1
        if self._failures == 1 or now - self._told >= MESSAGE_INTERVAL:
            self._told = now
            self._logger.warning("%s: %s; trying again until it answers", self._who, error)
        pause = min(FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10), self._longest_pause)
        return pause * random.uniform(0.5, 1)

    def over(self) -> bool:
        """Note a success; tell whether an outage ended with it."""
        if not self._failures:
            return False
        self._failures = 0
        lasted = time.monotonic() - self._since
        self._logger.warning("%s: %s answers again after %.1f s", self._who, self._what, lasted)
        return True
