"""What one `runtaskworker` was asked to do; a child gets a copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Seconds to wait for Redis to reply, at least.
SHORTEST_PATIENCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a worker is told when it starts. Times are in seconds."""

    name: str
    #: How long a claim holds; it is renewed every third of this.
    lease: float = 30
    #: Queues in strict order; empty for all that were ever used.
    queues: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()
    processes: int = 1
    threads: int = 8
    coroutines: int = 100
    burst: bool = False
    #: Tasks after which a child is recycled.
    max_tasks: int | None = None
    #: Bytes of resident memory after which a child is recycled.
    max_memory: int | None = None
    #: A child whose main loop or event loop hasn't moved for so long is killed; 0 never.
    stall_timeout: float = 300
    #: Grace after the first signal.
    shutdown_timeout: float = 25
    #: A child that isn't ready by then is replaced.
    ready_timeout: float = 60
    #: Grace for running tasks when the code changed.
    reload_timeout: float = 2
    fail_fast: bool = False
    health_file: Path | None = None

    @property
    def lease_ms(self) -> int:
        return round(self.lease * 1000)

    @property
    def patience(self) -> float:
        """Seconds to wait for Redis to reply: a connection that fell silent is given up while the lease holds."""
        return max(self.lease / 3, SHORTEST_PATIENCE)

    @property
    def served(self) -> tuple[str, ...]:
        """The named queues without the excluded ones."""
        return tuple(name for name in self.queues if name not in self.excluded)

    @property
    def slots(self) -> int:
        """Leases that one child can hold."""
        return self.threads + self.coroutines
