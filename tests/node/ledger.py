"""What runs in both languages wrote at their start and end, in a stream beside the queue.

It has one order, and its times are by Redis.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import redis

#: The database of the server that has it; the queue is in 0.
DATABASE = 1
KEY = "ledger"
PYTHON, NODE = "python", "node"
#: Milliseconds by which a task may begin late; whoever missed a wake-up looks again after five seconds.
LATENESS = 3500


@cache
def _client(pid: int) -> redis.Redis:
    from django.conf import settings

    client = redis.Redis.from_url(settings.TASKS["default"]["OPTIONS"]["url"])
    client.connection_pool.connection_kwargs["db"] = DATABASE
    return client


def client() -> redis.Redis:
    """Return this process's connection to the ledger."""
    return _client(os.getpid())


def note(event: str, task_id: str, attempt: int, token: int, who: str) -> None:
    """Write that a run began, or how it ended."""
    client().xadd(KEY, {"event": event, "id": task_id, "attempt": attempt, "token": token, "who": who})


@dataclass
class Run:
    """One run, as the ledger tells. `began` and `ended` are places in the ledger, `began_at` and `ended_at` ms."""

    id: str
    attempt: int
    token: int
    who: str
    began: int
    began_at: int
    end: str = ""
    ended: int | None = None
    ended_at: int | None = None

    @property
    def language(self) -> str:
        return self.who.partition("-")[0]


class Ledger:
    """All runs of each task, in the order in which they began."""

    def __init__(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        self.runs: dict[str, list[Run]] = defaultdict(list)
        self.order: list[Run] = []
        for place, (entry_id, fields) in enumerate(entries):
            self._add(place, int(entry_id.partition(b"-")[0]), {k.decode(): v.decode() for k, v in fields.items()})

    @classmethod
    def read(cls, reader: redis.Redis) -> Ledger:
        entries: Any = reader.xrange(KEY)
        return cls(entries)

    def _add(self, place: int, at: int, fields: dict[str, str]) -> None:
        runs = self.runs[fields["id"]]
        token = int(fields["token"])
        if fields["event"] == "begin":
            runs.append(Run(fields["id"], int(fields["attempt"]), token, fields["who"], place, at))
            self.order.append(runs[-1])
            return
        (run,) = [run for run in runs if run.token == token]
        assert run.ended is None, f"{run} ended twice"
        run.end, run.ended, run.ended_at = fields["event"], place, at

    def ids(self, language: str) -> set[str]:
        """Return the ids of the tasks that a language ran."""
        return {task_id for task_id, runs in self.runs.items() if any(run.language == language for run in runs)}

    def crossings(self, source: str, target: str) -> int:
        """Count the attempts that one language made after one by the other."""
        pairs = [pair for runs in self.runs.values() for pair in pairwise(runs)]
        return sum((first.language, second.language) == (source, target) for first, second in pairs)

    def check(self, lease_ms: int | None = None) -> None:
        """Check that no task was run by two at once, under tokens that grew.

        A run that never ended was killed; its lease must have lapsed before the next began.
        """
        for runs in self.runs.values():
            for first, second in pairwise(runs):
                assert second.token > first.token, f"the token didn't grow: {first}, {second}"
                if first.ended is not None:
                    assert first.ended < second.began, f"two at once: {first}, {second}"
                else:
                    assert lease_ms is not None, f"it never ended: {first}"
                    assert second.began_at - first.began_at >= lease_ms * 0.6, f"two at once: {first}, {second}"


def digest(ids: set[str]) -> str:
    """Return a short text that stands for these ids."""
    return f"{len(ids)} ids, SHA-256 {hashlib.sha256(' '.join(sorted(ids)).encode()).hexdigest()[:16]}"
