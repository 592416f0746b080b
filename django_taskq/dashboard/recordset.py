"""What the change lists ask instead of a QuerySet: immutable, and read a page at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..broker.listing import Entry, MergedListing
from ..broker.summaries import Summary
from ..models import RedisModel
from .criteria import FACETS, Criteria, facet
from .display import visible
from .source import Source

#: Records that one request searches at most, and the seconds that it takes for that.
SEARCHED = 20_000
SEARCH_SECONDS = 0.25
#: Records that are read at once, and of how many the filters offer the choices.
_STEP = 500
_SAMPLE = 500


#: Digits of a place in a listing are fewer than this.
_LONGEST_AFTER = 40
ALL = Criteria()


@dataclass(frozen=True)
class Row:
    """A record as a list shows it. `now` is Redis's clock when it was read."""

    entry: Entry
    summary: Summary
    now: int

    def __str__(self) -> str:
        return f"{visible(self.summary.name or '?')} {self.entry.id}"


@dataclass
class Window:
    """The part of a listing that was searched: from `start` on, `searched` of `total`."""

    start: int
    total: int
    searched: int = 0
    matches: list[Row] = field(default_factory=list)
    #: For each filter, how many records each of its choices would show.
    facets: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in FACETS})
    last: Entry | None = None

    @property
    def complete(self) -> bool:
        return self.start == 0 and self.searched >= self.total

    @property
    def more(self) -> bool:
        return self.start + self.searched < self.total

    def add(self, row: Row, missed: list[str]) -> None:
        self.searched += 1
        self.last = row.entry
        if not missed:
            self.matches.append(row)
        for name in FACETS:
            if missed in ([], [name]):
                self.facets[name][facet(row.summary, name)] += 1


class RecordSet:
    """The records in one place that meet some criteria."""

    #: The paginator warns of what has no order.
    ordered = True

    def __init__(
        self,
        model: type[RedisModel],
        source: Source,
        place: str,
        criteria: Criteria = ALL,
        *,
        descending: bool = False,
        after: str = "",
        keys: frozenset[str] | None = None,
    ) -> None:
        self.model = model
        self.verbose_name = model._meta.verbose_name
        self.verbose_name_plural = model._meta.verbose_name_plural
        self.source, self.place, self.criteria = source, place, criteria
        self.descending, self.after, self.keys = descending, after, keys

    def _but(self, **changed: Any) -> RecordSet:
        kept = {name: getattr(self, name) for name in ("criteria", "descending", "after", "keys")}
        return RecordSet(self.model, self.source, self.place, **{**kept, **changed})

    def refine(self, **fields: Any) -> RecordSet:
        return self._but(criteria=self.criteria.but(**fields))

    def starting_after(self, after: str) -> RecordSet:
        return self._but(after=after)

    def order_by(self, *names: str) -> RecordSet:
        return self._but(descending=bool(names) and names[0].startswith("-"))

    def filter(self, *, pk__in: Iterable[str]) -> RecordSet:
        return self._but(keys=frozenset(str(key) for key in pk__in))

    def count(self) -> int:
        return self.total if self._chosen is None else len(self._chosen)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[RedisModel]:
        return iter(self[: self.count()])

    def __getitem__(self, part: slice) -> list[RedisModel]:
        start, stop = part.start or 0, self.count() if part.stop is None else part.stop
        if self._chosen is not None:
            rows = self._chosen[start:stop]
        elif stop <= _SAMPLE:  # The filters' choices come from these, too.
            rows = self.window.matches[start:stop]
        else:
            rows = self._read(start, stop - start)
        return [self._instance(row) for row in rows]

    @property
    def total(self) -> int:
        """How many records there are in the queues that are looked at."""
        return sum(getattr(self.source.counts[queue], self.place) for queue in self.queues)

    @cached_property
    def window(self) -> Window:
        """What was searched, or the first records where nothing must be."""
        window = Window(self._start if self.criteria.looks_inside else 0, self.total)
        criteria = self.criteria.but(search="") if self.criteria.record_id else self.criteria
        limit = SEARCHED if criteria.looks_inside else _SAMPLE
        deadline = time.monotonic() + SEARCH_SECONDS
        while window.searched < limit and window.more:
            rows = self._read(window.start + window.searched, min(_STEP, limit - window.searched))
            for row in rows:
                window.add(row, criteria.misses(row.summary, row.entry.queue))
            if not rows or time.monotonic() > deadline:
                break
        return window

    @property
    def next(self) -> str:
        """Where the search goes on; empty when it has reached the end."""
        window = self.window
        if not (self.criteria.looks_inside and window.more and window.last):
            return ""
        score = window.last.score
        passed = window.start + window.searched - self._position(score)
        return f"{'-' if self.descending else ''}{score}.{passed}"

    @property
    def newest(self) -> int:
        """The highest score there is, as a bound for what comes later."""
        rows = self._but(descending=True, after="", keys=None, criteria=Criteria(self.criteria.queue))._read(0, 1)
        return rows[0].entry.score if rows else 0

    @cached_property
    def queues(self) -> list[str]:
        """The queues that are looked at."""
        return [queue for queue in self.source.counts if self.criteria.queue in (None, queue)]

    @cached_property
    def _chosen(self) -> list[Row] | None:
        """The records themselves, where they were named or searched for; None, where all are meant."""
        if self.keys is not None:
            return self._named([key.removeprefix(f"{self.source.alias}:") for key in sorted(self.keys)])
        if self.criteria.record_id:
            return self._named([self.criteria.record_id])
        return self.window.matches if self.criteria.looks_inside else None

    def _named(self, ids: Sequence[str]) -> list[Row]:
        rows = self._rows(self.source.read(lambda _: self._listing.places(ids), []))
        criteria = self.criteria.but(search="") if self.criteria.record_id else self.criteria
        return [row for row in rows if criteria.meets(row.summary, row.entry.queue)]

    @cached_property
    def _listing(self) -> MergedListing:
        return MergedListing(self.source.broker, self.place, self.queues, descending=self.descending)

    @property
    def _start(self) -> int:
        """The position that `after` stands for; 0 when it is of the other order, or none."""
        score, _, passed = self.after.removeprefix("-").partition(".")
        known = score.isdecimal() and passed.isdecimal() and len(self.after) < _LONGEST_AFTER
        if not known or self.after.startswith("-") != self.descending:
            return 0
        return min(self._position(int(score)) + int(passed), self.total)

    def _position(self, score: int) -> int:
        return self.source.read(lambda _: self._listing.position(score), 0)

    def _read(self, start: int, count: int) -> list[Row]:
        rows: list[Row] = []
        none: list[Entry] = []
        entries = self.source.read(lambda _: self._listing.page(start, count), none)
        for first in range(0, len(entries), _SAMPLE):
            rows += self._rows(entries[first : first + _SAMPLE])
        return rows

    def _rows(self, entries: Sequence[Entry]) -> list[Row]:
        if not entries:
            return []
        ids = [entry.id for entry in entries]
        none: tuple[int, list[Summary]] = (0, [])
        now, found = self.source.read(lambda inspector: inspector.summaries(ids), none)
        return [Row(entry, summary, now) for entry, summary in zip(entries, found, strict=False)]

    def _instance(self, row: Row) -> RedisModel:
        instance = self.model(key=f"{self.source.alias}:{row.entry.id}")
        instance.shown = row
        return instance
