"""What a task that takes a context is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from .compat import TaskContext


class Watch(Protocol):
    """What is known about a lease while its task runs."""

    @property
    def lease_lost(self) -> bool: ...
    @property
    def cancel_requested(self) -> bool: ...


class _NoLease:
    """The watch of a task that runs without a lease, as under Django's ImmediateBackend."""

    lease_lost = False
    cancel_requested = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundContext(TaskContext):  # type: ignore[misc]  # frozen in Django, not in django-stubs
    """A TaskContext that also tells about the lease."""

    fencing_token: int = 0  # Grows with each attempt; show it to what must refuse a stale one.
    idempotency_key: str | None = None
    watch: Watch = field(default=_NoLease(), repr=False, compare=False)

    @property
    def lease_lost(self) -> bool:
        """Whether another worker may run this task by now, so that nothing it does counts."""
        return self.watch.lease_lost

    @property
    def cancel_requested(self) -> bool:
        """Whether someone asked for this task to end."""
        return self.watch.cancel_requested


def upgraded(context: TaskContext) -> BackgroundContext:
    """Return the context that a task here expects for the plain one of another backend."""
    if isinstance(context, BackgroundContext):
        return context
    result = context.task_result
    begun = result.last_attempted_at
    return BackgroundContext(
        task_result=result,
        fencing_token=int(begun.timestamp() * 1000) if begun else 0,
        idempotency_key=getattr(result.task, "idempotency_key", None),
    )
