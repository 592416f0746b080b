"""Wait for a condition; tests never sleep for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds that the rest of what runs on a machine may add to whatever is timed. What goes wrong takes longer.
SLACK = 2.0


def wait_until(condition: Callable[[], T], timeout: float = 30.0, what: str = "") -> T:
    """Return the first true result of `condition`, or fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.001
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout} s: {what or getattr(condition, '__qualname__', condition)}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
