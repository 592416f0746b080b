"""How a lease ends: one class a transition, each with the script and the arguments it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from .envelope import DEFAULT_RESULT_TTL_MS

Argument = str | int | bytes


class Holding(Protocol):
    """Anything that says which lease is meant."""

    @property
    def id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def token(self) -> int: ...


# Not frozen: making one would take twice as long, for each task.
@dataclass(unsafe_hash=True, slots=True)
class Complete:
    """The task returned; `log_json` holds its result, `{}` when none is kept."""

    script: ClassVar[str] = "complete"
    lease: Holding
    log_json: bytes
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS

    def arguments(self) -> tuple[Argument, ...]:
        return self.lease.id, self.lease.queue, self.lease.token, self.result_ttl_ms, self.log_json


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed and another follows; with `lapsed` only if the lease has lapsed (for reapers)."""

    script: ClassVar[str] = "retry"
    lease: Holding
    delay_ms: int
    log_json: bytes
    lapsed: bool = False
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS

    def arguments(self) -> tuple[Argument, ...]:
        lease = self.lease
        return lease.id, lease.queue, lease.token, int(self.lapsed), self.delay_ms, self.result_ttl_ms, self.log_json


@dataclass(frozen=True, slots=True)
class Bury:
    """The last attempt failed, or the record can't run; with `lapsed` only if the lease has lapsed (for reapers)."""

    script: ClassVar[str] = "bury"
    lease: Holding
    log_json: bytes
    lapsed: bool = False
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS

    def arguments(self) -> tuple[Argument, ...]:
        lease = self.lease
        return lease.id, lease.queue, lease.token, int(self.lapsed), self.result_ttl_ms, self.log_json


@dataclass(frozen=True, slots=True)
class Release:
    """The record goes back as if never claimed.

    `keep` counts the attempt and notes it, `unknown` says that nobody here knew its name, and `floor` raises
    the token to one that a row is known to have seen.
    """

    script: ClassVar[str] = "release"
    lease: Holding
    delay_ms: int = 0
    floor: int = 0
    keep: bool = False
    unknown: bool = False
    log_json: bytes = b"{}"
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS

    def arguments(self) -> tuple[Argument, ...]:
        lease = self.lease
        words = " ".join(word for word in ("keep", "unknown") if getattr(self, word))
        return (
            lease.id, lease.queue, lease.token, self.delay_ms, self.floor, words, self.result_ttl_ms, self.log_json
        )  # fmt: skip


Settlement = Complete | Retry | Bury | Release
