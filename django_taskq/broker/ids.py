"""Record ids: ULIDs, 26 characters, growing within a producer (https://github.com/ulid/spec)."""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 80
#: The largest start of a millisecond's random part, so that counting up from it never overflows.
_HALF = 1 << (_RANDOM_BITS - 1)


class _Source:
    """Draws ids that sort in the order they were drawn, in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millisecond = 0
        self._last = 0
        self._opening = ""  # All characters of the last id but two.

    def draw(self) -> str:
        millisecond = time.time_ns() // 1_000_000
        with self._lock:
            if millisecond > self._millisecond:
                self._millisecond = millisecond
                self._last = millisecond << _RANDOM_BITS | int.from_bytes(os.urandom(10)) % _HALF
                self._opening = _opening(self._last)
            else:
                self._last += 1
                if not self._last & 1023:
                    self._opening = _opening(self._last)
            return self._opening + _PAIRS[self._last & 1023]


def _opening(value: int) -> str:
    return "".join([_PAIRS[value >> shift & 1023] for shift in range(120, 0, -10)])


_source = _Source()


def _forget() -> None:
    global _source
    _source = _Source()


# A forked child that counted on from its parent's last id would draw the same ones as its siblings.
os.register_at_fork(after_in_child=_forget)


def new_id() -> str:
    """Return a new id, larger than all that this process drew before."""
    return _source.draw()
