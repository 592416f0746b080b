"""How a run ends, and what is said to Redis about it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..broker.broker import Broker
from ..broker.envelope import DEFAULT_BACKOFF, DEFAULT_RESULT_TTL_MS
from ..broker.exceptions import UnknownVersion, UnreadableRecord
from ..broker.records import AttemptError, Lease
from ..broker.retry import decide
from ..broker.settlements import Bury, Complete, Holding, Release, Retry, Settlement
from .exceptions import Crash, TaskTimeout


# Not frozen: making one would take twice as long, for each task.
@dataclass(unsafe_hash=True, slots=True)
class Succeeded:
    """The task returned; `log_json` holds its result, `{}` where none is kept."""

    log_json: bytes
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS
    #: Whether its row says so already.
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed; the next follows after `delay_ms`, or none when that is None."""

    error: AttemptError
    delay_ms: int | None
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The task returned, but its row could not be written: it is buried, with its result in the log."""

    error: AttemptError
    log_json: bytes
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS

    def to_json(self) -> bytes:
        """Return the log's JSON: that of the error, and the result."""
        if self.log_json == b"{}":
            return self.error.to_json()
        return self.error.to_json()[:-1] + b"," + self.log_json[1:]


@dataclass(frozen=True, slots=True)
class Released:
    """The task didn't run here, or what it did was undone; it goes back, and the attempt with it."""

    delay_ms: int = 0
    unknown: bool = False
    #: A fencing token that its row has seen; the next one is larger.
    floor: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is another's; there is nothing to say."""


Outcome = Succeeded | Failed | Unsaved | Released | Lost


def to_settlement(lease: Holding, outcome: Outcome, *, lapsed: bool = False) -> Settlement | None:
    """Return what is sent to Redis for an outcome; `lapsed` makes it a reaper's."""
    match outcome:
        case Succeeded(log_json, result_ttl_ms):
            return Complete(lease, log_json, result_ttl_ms)
        case Failed(error, delay_ms, result_ttl_ms):
            if delay_ms is None:
                return Bury(lease, error.to_json(), lapsed, result_ttl_ms)
            return Retry(lease, delay_ms, error.to_json(), lapsed, result_ttl_ms)
        case Unsaved(_, _, result_ttl_ms):
            return Bury(lease, outcome.to_json(), lapsed, result_ttl_ms)
        case Released(delay_ms, unknown, floor):
            return Release(lease, delay_ms, floor, unknown=unknown)
        case Lost():
            return None


def settle(broker: Broker, lease: Holding, outcome: Outcome, *, lapsed: bool = False) -> str:
    """Tell Redis how one lease ended and return its word."""
    settlement = to_settlement(lease, outcome, lapsed=lapsed)
    if settlement is None:
        return "LEASE_LOST"
    words, _ = broker.exchange([settlement], None)
    return words[0]


def failed(lease: Lease, error: AttemptError, after_ms: int | None = None) -> Failed:
    """Decide what follows a failed attempt: the one place where that is decided.

    `after_ms` replaces the delay of its policy. What can't be read can't be run and is buried; but for what a later
    release wrote, for how often that may be tried only such a one knows.
    """
    try:
        envelope = lease.envelope
    except UnknownVersion:
        return Failed(error, DEFAULT_BACKOFF.delay_ms(lease.attempt, random.random()))
    except UnreadableRecord:
        return Failed(error, None)
    delay_ms = decide(lease.attempt, envelope.max_attempts, envelope.backoff, random.random())
    if delay_ms is not None and after_ms is not None:
        delay_ms = after_ms
    return Failed(error, delay_ms, envelope.result_ttl_ms)


def after_crash(lease: Lease, crash: type[Crash | TaskTimeout]) -> Failed:
    """Return the outcome of an attempt that ended without an answer from the task."""
    message = (crash.__doc__ or "").partition("\n")[0]
    return failed(lease, AttemptError(f"{crash.__module__}.{crash.__qualname__}", message, reason=crash.reason))
