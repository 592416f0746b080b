"""The read side of the queue: nothing here changes a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from .broker import BATCH_RECORDS, Broker
from .client import translated
from .envelope import parse_task
from .keys import is_queue_name
from .listing import PLACES
from .records import Attempt, Record, State
from .summaries import Summary, summary

#: Times that an alias may lead to another.
_LONGEST_CHAIN = 10
#: Most digits of a number in a run hash.
_DIGITS = 14
#: Bytes of a record's arguments, and of its last error, that a summary holds at most.
SUMMARY_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records of a queue are in each place."""

    ready: int
    scheduled: int
    leased: int
    dead: int


class Inspector:
    """Reads what a broker's namespace holds."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._client = broker.client
        self._keys = broker.keys

    def record(self, record_id: str) -> Record | None:
        """Return a record, by its id or by that of a duplicate that was answered with it; None: there is none."""
        for _ in range(_LONGEST_CHAIN):
            found = self._read([record_id])[0]
            if not isinstance(found, str):
                return found
            record_id = found
        return None

    def records(self, ids: Sequence[str]) -> list[Record | None]:
        """Return many records in their order, without following aliases."""
        return [None if isinstance(one, str) else one for one in self._read(ids)]

    def summaries(self, ids: Sequence[str], most_bytes: int | None = None) -> tuple[int, list[Summary]]:
        """Return the server's clock and short views of up to 1,000 records; one that is gone is empty."""
        now, *found = self.broker.run("summary", [most_bytes or SUMMARY_BYTES, *ids])
        return int(now), [summary(record_id, parts) for record_id, parts in zip(ids, found, strict=True)]

    def queues(self) -> list[str]:
        """Return the names of all queues that were ever used, without what a stranger put there that can be none."""
        with translated(self._client):
            names = [name.decode(errors="surrogateescape") for name in self._client.smembers(self._keys.queues)]
        return sorted(filter(is_queue_name, names))

    def counts(self, queues: Sequence[str] | None = None) -> dict[str, Counts]:
        """Return the depth of each queue, in one round trip."""
        names = self.queues() if queues is None else list(queues)
        with translated(self._client), self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                for place in PLACES:
                    pipeline.zcard(getattr(self._keys, place)(name))
            depths = pipeline.execute()
        return {name: Counts(*depths[4 * index : 4 * index + 4]) for index, name in enumerate(names)}

    def listing(self, queue: str, place: str) -> Listing:
        """Return the ids in one place of a queue: ready, scheduled, leased or dead."""
        if place not in PLACES:
            raise ValueError(f"place must be one of {', '.join(PLACES)}, not {place!r}.")
        return Listing(self.broker, getattr(self._keys, place)(queue))

    def workers(self) -> list[dict[str, str]]:
        """Return the presence of each worker that was seen lately, with its `name`."""
        with translated(self._client):
            names = [_shown(name) for name in self._client.zrange(self._keys.workers, 0, -1)]
            with self._client.pipeline(transaction=False) as pipeline:
                for name in names:
                    pipeline.hgetall(self._keys.worker(name))
                presences = pipeline.execute() if names else []
        return [
            {"name": name, **{_shown(field): _shown(value) for field, value in presence.items()}}
            for name, presence in zip(names, presences, strict=True)
            if presence
        ]

    def _read(self, ids: Sequence[str]) -> list[Record | str | None]:
        """Return for each id its record, the id that it is an alias of, or None."""
        found: list[Record | str | None] = []
        while len(found) < len(ids):
            page = ids[len(found) : len(found) + BATCH_RECORDS]
            # Of large records the reply holds the first ones only.
            parts = zip(page, self.broker.run("read", page), strict=False)
            found += [_record(record_id, *held) for record_id, held in parts]
        return found


class Listing(Sequence[tuple[str, int]]):
    """The (id, score) pairs of a sorted set, read a page at a time."""

    def __init__(self, broker: Broker, key: str) -> None:
        self._client = broker.client
        self._key = key

    def __len__(self) -> int:
        with translated(self._client):
            return int(self._client.zcard(self._key))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        start = 0
        while page := self[start : start + BATCH_RECORDS]:
            yield from page
            start += BATCH_RECORDS

    @overload
    def __getitem__(self, index: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, int] | list[tuple[str, int]]:
        if isinstance(index, slice):
            return self._slice(index)
        found = self._range(index, index)
        if not found:
            raise IndexError(index)
        return found[0]

    def _slice(self, index: slice) -> list[tuple[str, int]]:
        start, stop = index.start or 0, index.stop
        if start < 0 or (stop is not None and stop < 0) or (index.step or 1) < 0:
            # Counted from the end: the length is asked first.
            indices = range(*index.indices(len(self)))
            found = self._range(min(indices), max(indices)) if indices else []
            return found[:: indices.step]
        if stop is not None and stop <= start:
            return []
        return self._range(start, -1 if stop is None else stop - 1)[:: index.step or 1]

    def _range(self, first: int, last: int) -> list[tuple[str, int]]:
        with translated(self._client):
            found = self._client.zrange(self._key, first, last, withscores=True)
        return [(_shown(member), int(score)) for member, score in found]


def _shown(data: bytes) -> str:
    """Return a text that a stranger may have put there."""
    return data.decode(errors="replace")


def _record(
    record_id: str, task: bytes, ttl: int, run: list[bytes], log: list[bytes], *scores: bytes
) -> Record | str | None:
    if task.startswith(b"alias "):
        return _shown(task.removeprefix(b"alias "))
    fields: dict[str, Any] = {_shown(name): _shown(value) for name, value in zip(run[::2], run[1::2], strict=True)}
    if not fields and (not task or ttl >= 0):
        return None
    _, scheduled, leased, dead = (int(float(score)) if score else None for score in scores)
    head, envelope = parse_task(task)

    def number(name: str) -> int | None:
        # What the scripts don't take for a number either counts as missing.
        text = fields.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None

    return Record(
        id=record_id,
        state=State(fields.get("state", State.WAITING)),
        task=task,
        head=head,
        envelope_bytes=envelope,
        attempts=number("attempts") or 0,
        releases=number("releases") or 0,
        token=number("token") or 0,
        worker=fields.get("worker"),
        started_at=number("started_at"),
        last_attempted_at=number("last_attempted_at"),
        finished_at=number("finished_at"),
        cancel_requested="cancel_requested" in fields,
        due_at=scheduled,
        lease_ends_at=leased,
        died_at=dead,
        expires_in_ms=ttl if ttl >= 0 else None,
        history=tuple(Attempt.from_line(line) for line in log),
    )
