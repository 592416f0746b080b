"""The records in one place of several queues, as one sequence that is read a page at a time.

They stand in the order of their scores, then of their queues' names, then as Redis keeps them. A page is found by
counting what stands before it, never by reading that, so a far page costs as little as the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from .broker import BATCH_RECORDS, Broker
from .client import translated

PLACES = ("ready", "scheduled", "leased", "dead")
#: As far as this a page is found by reading from the start.
_NEAR = 500


class Entry(NamedTuple):
    """A record's place: its queue, and there its score."""

    id: str
    queue: str
    score: int


class MergedListing:
    """The entries of one place of some queues, by ascending or descending score."""

    def __init__(self, broker: Broker, place: str, queues: Iterable[str], *, descending: bool = False) -> None:
        if place not in PLACES:
            raise ValueError(f"place must be one of {', '.join(PLACES)}, not {place!r}.")
        self._client = broker.client
        self._sign = -1 if descending else 1
        self._keys = {queue: getattr(broker.keys, place)(queue) for queue in sorted(queues)}

    @cached_property
    def depths(self) -> dict[str, int]:
        """How many entries each queue has, as of when it was first asked."""
        depths = self._pipelined("zcard", [(key,) for key in self._keys.values()])
        return dict(zip(self._keys, depths, strict=True))

    def __len__(self) -> int:
        return sum(self.depths.values())

    def page(self, start: int, count: int) -> list[Entry]:
        """Return up to `count` entries from a position on."""
        if start <= _NEAR or len(self._filled) == 1:
            skipped = 0 if len(self._filled) > 1 else start
            return self._from(dict.fromkeys(self._filled, skipped), start - skipped, count)
        return self._from(self._starts(start), 0, count)

    def pages(self, start: int, size: int = BATCH_RECORDS) -> Iterator[list[Entry]]:
        """Yield page after page."""
        while page := self.page(start, size):
            yield page
            start += len(page)

    def position(self, score: int) -> int:
        """Return how many entries stand before those with a score."""
        return sum(self._before(score))

    def places(self, ids: Sequence[str]) -> list[Entry]:
        """Return where records are, in their order, without those that are in none of these queues."""
        asked = [(record_id, queue) for record_id in ids for queue in self._keys]
        scores = self._pipelined("zscore", [(self._keys[queue], record_id) for record_id, queue in asked])
        found = zip(asked, scores, strict=True)
        return [Entry(record_id, queue, int(score)) for (record_id, queue), score in found if score is not None]

    @property
    def _filled(self) -> list[str]:
        return [queue for queue, depth in self.depths.items() if depth]

    def _from(self, starts: dict[str, int], skip: int, count: int) -> list[Entry]:
        """Merge the queues, each from its start on."""
        ranged = "zrevrange" if self._sign < 0 else "zrange"
        calls = [(self._keys[queue], start, start + skip + count - 1) for queue, start in starts.items()]
        found = self._pipelined(ranged, calls, withscores=True)
        runs = [
            [Entry(member.decode(errors="replace"), queue, int(score)) for member, score in entries]
            for queue, entries in zip(starts, found, strict=True)
        ]
        return list(heapq.merge(*runs, key=lambda entry: self._sign * entry.score))[skip : skip + count]

    def _starts(self, position: int) -> dict[str, int]:
        """Return how much of each queue stands before a position of the whole."""
        score = self._score_at(position)
        before = self._before(score)
        ties = self._pipelined("zcount", [(self._keys[queue], score, score) for queue in self._filled])
        rest = position - sum(before)
        starts = {}
        for queue, passed, tied in zip(self._filled, before, ties, strict=True):
            taken = min(rest, tied)
            starts[queue] = passed + taken
            rest -= taken
        return starts

    def _score_at(self, position: int) -> int:
        """Return the score of the entry at a position: the last one with at most that many before it."""
        ends = [(self._keys[queue], end, end) for queue in self._filled for end in (0, -1)]
        found = [int(entries[0][1]) for entries in self._pipelined("zrange", ends, withscores=True) if entries]
        values = [self._sign * score for score in found]
        low, high = min(values, default=0), max(values, default=0)
        while low < high:
            middle = (low + high + 1) // 2
            if sum(self._before(self._sign * middle)) <= position:
                low = middle
            else:
                high = middle - 1
        return self._sign * low

    def _before(self, score: int) -> list[int]:
        """Return how many entries of each queue that has some stand before those with a score."""
        bounds = (f"({score}", "+inf") if self._sign < 0 else ("-inf", f"({score}")
        return self._pipelined("zcount", [(self._keys[queue], *bounds) for queue in self._filled])

    def _pipelined(self, command: str, calls: Sequence[tuple[Any, ...]], **options: Any) -> list[Any]:
        if not calls:
            return []
        with translated(self._client), self._client.pipeline(transaction=False) as pipeline:
            for arguments in calls:
                getattr(pipeline, command)(*arguments, **options)
            return list(pipeline.execute())


def oldest_first(
    broker: Broker, place: str, queue: str, after: tuple[int, str] | None, until: int, count: int
) -> list[Entry]:
    """Return up to `count` entries of a queue behind a (score, id), up to a score; removals don't upset it."""
    key = getattr(broker.keys, place)(queue)
    low: int | str = "-inf" if after is None else after[0]
    found: list[Entry] = []
    start = 0
    while True:
        with translated(broker.client):
            page = broker.client.zrangebyscore(key, low, until, start=start, num=count, withscores=True)
        entries = [Entry(member.decode(errors="replace"), queue, int(score)) for member, score in page]
        # Redis orders equal scores by the bytes of their members; ids are ASCII.
        found += [entry for entry in entries if after is None or (entry.score, entry.id) > after]
        if len(found) >= count or len(page) < count:
            return found[:count]
        start += len(page)
