"""How long a child lives: until it has run so many tasks, or grown so large."""

from __future__ import annotations

import os
import resource
import sys
import time

from .settings import Settings

#: Seconds between two looks at the memory.
LOOK_INTERVAL = 1.0


class Lifetime:
    """Tells a child when to make room for a fresh one."""

    def __init__(self, settings: Settings) -> None:
        self._most_bytes = settings.max_memory
        self._tasks_left = float("inf") if settings.max_tasks is None else settings.max_tasks
        self._looks_at = 0.0
        self._too_large = False

    @property
    def is_over(self) -> bool:
        return self._tasks_left <= 0 or self._has_grown_too_large()

    def at_most(self, tasks: int) -> int:
        """Return how many tasks, of so many, may still be started."""
        return int(min(tasks, self._tasks_left))

    def started(self, tasks: int) -> None:
        self._tasks_left -= tasks

    def _has_grown_too_large(self) -> bool:
        if self._most_bytes is not None and (now := time.monotonic()) >= self._looks_at:
            self._looks_at = now + LOOK_INTERVAL
            self._too_large = resident_bytes() > self._most_bytes
        return self._too_large


def resident_bytes() -> int:
    """Return the memory that this process takes now, or the most it ever took where the system doesn't say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
