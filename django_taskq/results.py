"""Between what Django shows of a task and what Redis holds: TaskResult <-> record.

On the way back nothing is validated: a task that was renamed, whose queue left the settings or whose record
can't be read must still be viewable.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from . import registry
from .broker.envelope import Envelope, Form, Head
from .broker.exceptions import UnreadableRecord
from .broker.ids import new_id
from .broker.records import MOST_NAMELESS, AttemptError, Lease, NewRecord, Record, State
from .broker.retry import RetryPolicy
from .compat import Task, TaskError, TaskResult, TaskResultStatus
from .conf import Options, milliseconds
from .task import BackgroundTask, as_background, unchecked

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

#: The task of a record whose envelope can't be read.
UNREADABLE = "unreadable.record"

STATUSES = {
    State.WAITING: TaskResultStatus.READY,
    State.LEASED: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
_FINISHED = {State.SUCCEEDED, State.DEAD, State.CANCELLED}

#: What fresh results share, by the names of their fields.
_SHARED = {
    "status": TaskResultStatus.READY,
    "enqueued_at": None,
    "started_at": None,
    "last_attempted_at": None,
    "finished_at": None,
    "_return_value": None,
}
#: Set the fields of a frozen result.
_set_task, _set_id, _set_args, _set_kwargs, _set_backend, _set_errors, _set_worker_ids, *_set_shared = (
    getattr(TaskResult, name).__set__
    for name in ("task", "id", "args", "kwargs", "backend", "errors", "worker_ids", *_SHARED)
)
_SET_SHARED = tuple(zip(_set_shared, _SHARED.values(), strict=True))


def moment(ms: int) -> datetime:
    """Return a time of Redis's clock as the settings want it: aware, or in the default time zone."""
    try:
        aware = EPOCH + ms * MILLISECOND
        return aware if settings.USE_TZ else timezone.make_naive(aware, timezone.get_default_timezone())
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC if settings.USE_TZ else None)


def _moment_or_none(ms: int | None) -> datetime | None:
    return None if ms is None else moment(ms)


def milliseconds_of(when: datetime) -> int:
    """Return a datetime in whole ms, rounded up: a task never starts before its time."""
    aware = timezone.make_aware(when, timezone.get_default_timezone()) if timezone.is_naive(when) else when
    return -((EPOCH - aware) // MILLISECOND)


def fresh(task: Task, args: list[Any], kwargs: dict[str, Any], alias: str) -> TaskResult:
    """Return the result of a task that is about to be enqueued, with arguments that are plain JSON already."""
    made = object.__new__(TaskResult)
    _set_task(made, task)
    _set_id(made, new_id())
    _set_args(made, args)
    _set_kwargs(made, kwargs)
    _set_backend(made, alias)
    _set_errors(made, [])
    _set_worker_ids(made, [])
    for set_field, value in _SET_SHARED:
        set_field(made, value)
    return made


class RecordForm:
    """What all records of a task have in common: it is made once, and filled in for each call.

    `record_alias` is the database that has their rows from the enqueue on, if one has.
    """

    def __init__(self, task: Task, conf: Options, record_alias: str | None) -> None:
        self.task = task  # Kept, so that no other task has its id().
        policy = as_background(task)
        at_ms = None if task.run_after is None else milliseconds_of(task.run_after)
        delay = policy.run_after_delay
        # Unless its effects go elsewhere, they go where its row is.
        atomic = policy.atomic if isinstance(policy.atomic, str) else record_alias if policy.atomic else None
        self._name = policy.wire_name
        self._max_bytes = conf.max_payload_bytes
        self._envelope = Form.of(_envelope(policy, at_ms, atomic, conf))
        self._queue = task.queue_name
        self._rest = (
            int(task.priority),
            0 if delay is None else max(-(-delay // MILLISECOND), 0),
            at_ms or 0,
            policy.idempotency_key,
            conf.idempotency_ttl_ms,
            record_alias,
        )

    def record(self, result: TaskResult) -> NewRecord:
        """Return what to store for a fresh result; raise ValueError when that is too large."""
        envelope = self._envelope.filled(result.args, result.kwargs)
        if len(envelope) > self._max_bytes:
            raise ValueError(
                f"{self._name}: the arguments take {len(envelope)} bytes with all that goes along, "
                f"and max_payload_bytes is {self._max_bytes}. Store them elsewhere and pass a reference."
            )
        return NewRecord(result.id, self._queue, envelope, *self._rest)


def _envelope(task: BackgroundTask[..., Any], run_after: int | None, atomic: str | None, conf: Options) -> Envelope:
    timeout = conf.timeout if task.timeout is None else task.timeout
    result_ttl = conf.result_ttl if task.result_ttl is None else task.result_ttl
    return Envelope(
        name=task.wire_name,
        run_after=run_after,
        max_attempts=conf.max_attempts if task.max_attempts is None else task.max_attempts,
        # A callable stays with the Python workers; others, and reapers, go by the backend's policy.
        backoff=task.backoff if isinstance(task.backoff, RetryPolicy) else conf.backoff,
        timeout_ms=None if timeout is None else milliseconds(timeout),
        result_ttl_ms=milliseconds(result_ttl),
        atomic=atomic,
        meta={} if task.is_remote or task.wire_name == task.module_path else {"path": task.module_path},
    )


def from_record(record: Record, alias: str) -> TaskResult:
    """Return the result that a record stands for; raise `UnreadableRecord` for a state that isn't known here."""
    if not record.state.is_known:
        raise UnreadableRecord(f"The state of {record.id} is {record.state.value!r}, which isn't known here.")
    envelope = _readable(record)
    ended = record.finished_at if record.finished_at is not None else record.died_at
    values = {
        "task": _restored(_find(envelope), envelope, record.head, alias),
        "id": record.id,
        "status": STATUSES[record.state],
        "enqueued_at": moment(record.head.enqueued_at),
        "started_at": _moment_or_none(record.started_at),
        "last_attempted_at": _moment_or_none(record.last_attempted_at),
        "finished_at": _moment_or_none(ended) if record.state in _FINISHED else None,
        "args": envelope.args,
        "kwargs": envelope.kwargs,
        "backend": alias,
        "errors": [_task_error(attempt.error) for attempt in record.round if attempt.error],
        "worker_ids": record.worker_ids,
        "_return_value": record.result,
    }
    return unchecked(TaskResult, values)


def from_lease(lease: Lease, task: Task | None, *, alias: str, child: str) -> TaskResult:
    """Return the result of a task that is about to run; None is a task that nobody here knows.

    A lease doesn't tell of earlier attempts more than their number.
    """
    envelope = _readable(lease)
    begun = moment(lease.claimed_at)
    values = {
        "task": _restored(task, envelope, lease.head, alias),
        "id": lease.id,
        "status": TaskResultStatus.RUNNING,
        "enqueued_at": moment(lease.head.enqueued_at),
        "started_at": begun,
        "last_attempted_at": begun,
        "finished_at": None,
        "args": envelope.args,
        "kwargs": envelope.kwargs,
        "backend": alias,
        "errors": [],
        "worker_ids": [*[""] * min(lease.attempt - 1, MOST_NAMELESS), child],
    }
    return unchecked(TaskResult, values)


def succeed(result: TaskResult, value: Any) -> None:
    """Note on a running result that its task returned this."""
    change(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)


def fail(result: TaskResult, error: AttemptError) -> None:
    """Note on a running result that its task failed for good."""
    errors = [*result.errors, _task_error(error)]
    change(result, status=TaskResultStatus.FAILED, finished_at=timezone.now(), errors=errors)


def become(result: TaskResult, other: TaskResult) -> None:
    """Make one result say what another does."""
    change(result, **{each.name: getattr(other, each.name) for each in fields(other)})


def change(result: TaskResult, **values: Any) -> None:
    """Set fields of a result, which Django makes frozen and changes in this way itself."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _readable(stored: Record | Lease) -> Envelope:
    try:
        return stored.envelope
    except UnreadableRecord:
        return Envelope(UNREADABLE)


def _find(envelope: Envelope) -> Task | None:
    try:
        return registry.find(envelope.name, envelope.meta.get("path"))
    except registry.NotATask:
        return None


def _restored(task: Task | None, envelope: Envelope, head: Head, alias: str) -> Task:
    """Return a task as it was enqueued, with a stand-in for one that can't be found."""
    found = task or _stand_in(envelope)
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    enqueued = {
        "backend": alias,
        "queue_name": head.queue,
        "priority": head.priority,
        "run_after": _moment_or_none(envelope.run_after),
        "idempotency_key": head.key,
    }
    return unchecked(type(found), {**values, **enqueued})


def _stand_in(envelope: Envelope) -> BackgroundTask[..., Any]:
    module, _, name = str(envelope.meta.get("path") or envelope.name).rpartition(".")

    def absent(*args: Any, **kwargs: Any) -> None:
        raise LookupError(f"The task {envelope.name!r} can't be found here.")

    absent.__module__, absent.__qualname__, absent.__name__ = module or "unknown", name, name
    return unchecked(BackgroundTask, {"func": absent, "wire_name": envelope.name})


def _task_error(error: AttemptError) -> TaskError:
    return TaskError(exception_class_path=error.error, traceback=error.traceback or error.message)
