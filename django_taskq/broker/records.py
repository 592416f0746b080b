"""Records, leases and attempts, as they come from Redis and go there. All times are ms on Redis's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from .envelope import Envelope, Head, dump_json, parse_task, read_json

#: Bytes of an error's message and traceback that are kept.
ERROR_BYTES = 65_536
#: Attempts without a name that are listed at most: a stranger may have written how many there were.
MOST_NAMELESS = 100_000


class State(StrEnum):
    """What has become of a record. `State(text)` also takes what no script writes, as a state that isn't known."""

    WAITING = "waiting"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def is_known(self) -> bool:
        return self.name in State.__members__

    @classmethod
    def _missing_(cls, value: object) -> State | None:
        if not isinstance(value, str):
            return None
        strange = str.__new__(cls, value)
        strange._name_, strange._value_ = "", value
        return strange


class NewRecord(NamedTuple):
    """A record to enqueue, due after `delay_ms` or at `at_ms` (0: none), whichever is later."""

    id: str
    queue: str
    envelope: bytes
    priority: int = 0
    delay_ms: int = 0
    at_ms: int = 0
    key: str | None = None
    key_ttl_ms: int = 0
    record_alias: str | None = None


class Enqueued(NamedTuple):
    """What became of one: `word` is STORED, EXISTS (sent before) or TAKEN (`id` is the key's holder)."""

    word: str
    id: str
    state: State
    enqueued_at: int


# Not frozen: making one would take three times as long, for each task.
@dataclass(unsafe_hash=True)
class Lease:
    """The right to run a record until `deadline`, a moment of `time.monotonic` counted from the request."""

    id: str
    queue: str
    token: int
    attempt: int
    releases: int
    unknown_ms: int | None
    task: bytes
    claimed_at: int
    deadline: float
    cancel_requested: bool = False

    @cached_property
    def _parts(self) -> tuple[Head, bytes]:
        return parse_task(self.task, self.queue)

    @property
    def head(self) -> Head:
        return self._parts[0]

    @property
    def envelope_bytes(self) -> bytes:
        return self._parts[1]

    @cached_property
    def envelope(self) -> Envelope:
        """Decode the envelope; raises `UnreadableRecord`."""
        return Envelope.from_bytes(self.envelope_bytes)


@dataclass(frozen=True, slots=True)
class Claim:
    """A request for up to `count` leases. A child's nonce grows with each new claim, and stays when it is repeated."""

    child: str
    nonce: int
    count: int
    lease_ms: int
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claimed:
    """The leases of a claim, and the ms until the next due record; `stale` when a later nonce was seen."""

    leases: Sequence[Lease]
    next_due_ms: int | None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Expired:
    """Leases that have lapsed, and the ms until the next lapse."""

    leases: Sequence[Lease]
    next_lapse_ms: int | None


@dataclass(frozen=True, slots=True)
class Repaired:
    """Which server Redis is, by an id that it draws when it starts, and the mark of each database with rows."""

    now: int
    server_id: str
    marks: Mapping[str, str]


def _cut(text: str) -> str:
    safe = text.encode("utf-8", "backslashreplace")
    if len(safe) <= ERROR_BYTES:
        return safe.decode()
    half = ERROR_BYTES // 2
    head, tail = safe[:half].decode(errors="ignore"), safe[-half:].decode(errors="ignore")
    return f"{head}\n[{len(safe) - 2 * half} bytes cut]\n{tail}"


@dataclass(frozen=True, slots=True)
class AttemptError:
    """Why an attempt failed: the exception's class path and texts, and a `reason` where the queue gave one."""

    error: str
    message: str = ""
    traceback: str = ""
    reason: str = ""

    def to_json(self) -> bytes:
        """Return the log's JSON, with long texts cut in the middle."""
        document = {"error": _cut(self.error), "message": _cut(self.message), "traceback": _cut(self.traceback)}
        if self.reason:
            document["reason"] = _cut(self.reason)
        return dump_json(document)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An ended attempt, as its log line tells: with a result or an error, or both where its row wasn't saved."""

    attempt: int
    token: int
    started_at: int
    ended_at: int
    child: str
    error: AttemptError | None
    result: Any = None

    @classmethod
    def from_line(cls, line: bytes) -> Attempt:
        """Read a log line; one that can't be read counts as an attempt with an unreadable error."""
        try:
            attempt, token, started_at, ended_at, child, text = line.decode().split(" ", 5)
            numbers = int(attempt), int(token), int(started_at), int(ended_at)
            document = read_json(text)
            if "error" not in document:
                return cls(*numbers, child, None, document.get("result"))
            names = ("error", "message", "traceback", "reason")
            error = AttemptError(*(str(document.get(name) or "") for name in names))
            return cls(*numbers, child, error, document.get("result"))
        except (ValueError, TypeError, AttributeError, RecursionError):
            shown = line[:1000].decode(errors="replace")
            return cls(0, 0, 0, 0, "", AttemptError("", "The log line can't be read.", shown, "unreadable"))


@dataclass(frozen=True)
class Record:
    """Everything that Redis holds about one task, at one moment."""

    id: str
    state: State
    task: bytes
    head: Head
    envelope_bytes: bytes
    attempts: int
    releases: int
    token: int
    worker: str | None
    started_at: int | None
    last_attempted_at: int | None
    finished_at: int | None
    cancel_requested: bool
    due_at: int | None
    lease_ends_at: int | None
    died_at: int | None
    expires_in_ms: int | None
    #: The last 20 ended attempts of all rounds, oldest first.
    history: tuple[Attempt, ...]

    @cached_property
    def envelope(self) -> Envelope:
        """Decode the envelope; raises `UnreadableRecord`."""
        return Envelope.from_bytes(self.envelope_bytes)

    @property
    def round(self) -> tuple[Attempt, ...]:
        """The ended attempts since it was enqueued or last requeued, as far as the log goes back."""
        ended = self.attempts - (self.state is State.LEASED)
        return self.history[-ended:] if ended > 0 else ()

    @property
    def worker_ids(self) -> list[str]:
        """The child that made each attempt of this round; empty names where the log no longer goes back."""
        ended = self.attempts - (self.state is State.LEASED)
        names = [attempt.child for attempt in self.round]
        names = [""] * min(ended - len(names), MOST_NAMELESS) + names
        return [*names, self.worker or ""] if self.state is State.LEASED else names

    @property
    def result(self) -> Any:
        """What the task returned, when it succeeded."""
        return self.history[-1].result if self.state is State.SUCCEEDED and self.history else None
