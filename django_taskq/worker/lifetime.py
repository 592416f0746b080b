"""How long a child lives: until it has run so many tasks, or grown so large.

It runs one in any case, so that a limit below its size at birth makes a worker slow, and not idle.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import time

from .settings import Settings

logger = logging.getLogger("django_taskq.worker")

#: Seconds between two looks at the memory.
LOOK_INTERVAL = 1.0


class Lifetime:
    """Tells a child when to make room for a fresh one."""

    def __init__(self, settings: Settings) -> None:
        self._most_bytes = settings.max_memory
        self._tasks_left = float("inf") if settings.max_tasks is None else settings.max_tasks
        self._looks_at = 0.0
        self._has_run = False
        self._is_too_large = False

    @property
    def is_over(self) -> bool:
        return self._tasks_left <= 0 or self._has_grown_too_large()

    def at_most(self, tasks: int) -> int:
        """Return how many tasks, of so many, may still be started."""
        return int(min(tasks, self._tasks_left))

    def started(self, tasks: int) -> None:
        self._has_run = True
        self._tasks_left -= tasks

    def _has_grown_too_large(self) -> bool:
        if self._most_bytes is None or not self._has_run:
            return False
        if (now := time.monotonic()) >= self._looks_at and not self._is_too_large:
            self._looks_at = now + LOOK_INTERVAL
            size = resident_bytes()
            if size > self._most_bytes:
                self._is_too_large = True
                logger.info("This child takes %d MB and makes room for a fresh one", size // 2**20)
        return self._is_too_large


def resident_bytes() -> int:
    """Return the memory that this process takes now, or the most it ever took where the system doesn't say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
