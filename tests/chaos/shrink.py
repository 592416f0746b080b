"""Find fewer faults that still break something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Leave out parts, large groups first, as long as what remains fails; the order of the parts stays.

    It ends when no single part can be left out (delta debugging, without its reductions to subsets).
    """
    left = list(parts)
    size = max(1, len(left) // 2)
    while left:
        start, shrunk = 0, False
        while start < len(left):
            fewer = left[:start] + left[start + size :]
            if fails(fewer):
                left, shrunk = fewer, True
            else:
                start += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return left
