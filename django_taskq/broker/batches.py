"""Cut what is sent into pieces that one call or statement takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size_of: Callable[[T], int], most: int, most_size: int) -> Iterator[list[T]]:
    """Yield items in their order, at most so many and of at most this size at once; a larger one comes alone."""
    batch: list[T] = []
    size = 0
    for item in items:
        length = size_of(item)
        if batch and (len(batch) >= most or size + length > most_size):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch
