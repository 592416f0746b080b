"""The outbox: a row that is written in the caller's transaction, from which any worker can push its task to Redis."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, models, router, transaction
from django.utils import timezone

from . import registry
from .broker.batches import batches
from .broker.envelope import Envelope
from .broker.exceptions import EnqueueError, UnreadableRecord
from .broker.records import NewRecord
from .commit import OnCommit, after_commit, is_open
from .compat import TaskResult
from .models import TaskRecord
from .results import milliseconds_of
from .task import BackgroundTask, as_background

logger = logging.getLogger("django_taskq")

#: A row that nobody closed by then is asked about: its push failed, or the process that was to do it died.
RELAY_DELAY = timedelta(seconds=10)
#: Rows in one statement, and characters of their envelopes.
BATCH_ROWS, BATCH_TEXT = 500, 4_000_000

Status = TaskRecord.Status
#: The rows of tasks that haven't ended.
OPEN = (Status.WAITING, Status.RUNNING)


class Backlog(NamedTuple):
    """The outbox of one database: tasks that haven't ended, those to ask Redis about now, and the age of the oldest."""

    open: int
    due: int
    oldest: timedelta | None


Draft = tuple[TaskResult, NewRecord]

#: Backends whose last push failed, which was said then.
_failing: set[str] = set()


def database_of(task: BackgroundTask[..., object]) -> str:
    """Return the alias of the database that holds the rows of a task with an outbox."""
    named = (alias for alias in (task.outbox, task.atomic) if isinstance(alias, str))
    return next(named, None) or router.db_for_write(TaskRecord)


def record_aliases(keeps_records: bool) -> set[str]:
    """Return the databases in which a backend, or a task that was declared, has rows."""
    found = {router.db_for_write(TaskRecord)} if keeps_records else set()
    for task in registry.tasks():
        if isinstance(task, BackgroundTask) and (task.outbox or task.atomic):
            found |= {database_of(task), *([task.atomic] if isinstance(task.atomic, str) else ())}
    return found


def backlog(backend: str, alias: str) -> Backlog:
    """Return what a backend has in the outbox of a database; raises what the database does."""
    now = timezone.now()
    is_due = models.Q(repair_at__lte=now)
    found = (
        TaskRecord.objects.using(alias)
        .filter(backend=backend, repair_at__isnull=False)
        .aggregate(open=models.Count("pk"), due=models.Count("pk", is_due), oldest=models.Min("enqueued_at"))
    )
    oldest = found["oldest"]
    return Backlog(found["open"], found["due"], None if oldest is None else now - oldest)


def send(backend: str, drafts: Sequence[Draft], push: Callable[[], None], on_commit: OnCommit) -> None:
    """Insert the rows of records and push these when all that `on_commit` names has committed.

    The rows' own database decides: they are part of its open transaction, and without one they are inserted when
    the others have committed. A push that fails raises nothing, for a worker will do it.
    """
    alias = drafts[0][1].record_alias
    assert alias is not None, "only a record with a row has an outbox"
    if is_open(alias):
        _insert(backend, drafts, alias)
        after_commit(partial(_try, backend, push), on_commit, alias)
    # By then it may have an open transaction.
    elif not after_commit(partial(send, backend, drafts, push, on_commit), on_commit):
        _insert(backend, drafts, alias)
        _try(backend, push)


def record_of(row: TaskRecord, now_ms: int, key_ttl_ms: int) -> NewRecord:
    """Return what was enqueued; of a delay, what is left of it, or all when the clocks contradict each other.

    `now_ms` is the time on Redis's clock.
    """
    try:
        due_at = Envelope.from_bytes(row.envelope.encode()).run_after or 0
    except UnreadableRecord:
        due_at = 0
    if row.delay_ms:
        # By the clock that says less, since a task never starts before its time.
        passed = min(time.time() * 1000, now_ms) - milliseconds_of(row.enqueued_at)
        due_at = max(due_at, round(now_ms + min(max(row.delay_ms - passed, 0), row.delay_ms)))
    return NewRecord(
        id=row.pk,
        queue=row.queue,
        envelope=row.envelope.encode(),
        priority=row.priority,
        at_ms=due_at,
        key=row.idempotency_key or None,
        key_ttl_ms=key_ttl_ms,
        record_alias=row._state.db,
    )


def close_duplicate(record: NewRecord) -> None:
    """Close the row of a task whose idempotency key is another's."""
    try:
        row = TaskRecord.objects.using(record.record_alias).filter(pk=record.id, status__in=OPEN)
        row.update(status=Status.DUPLICATE, finished_at=timezone.now(), repair_at=None)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("The row of %s, a duplicate, is left to a worker: %s", record.id, error)


def insert(row: TaskRecord, alias: str) -> None:
    """Insert a row in one statement, without the signals of `save`, whose receivers may enqueue tasks themselves."""
    query: Any = TaskRecord.objects.using(alias)
    with transaction.mark_for_rollback_on_error(using=alias):
        # `save` and `bulk_create` call this, and the latter begins a transaction before.
        query._insert([row], fields=TaskRecord._meta.concrete_fields, using=alias)


def _insert(backend: str, drafts: Sequence[Draft], alias: str) -> None:
    now = timezone.now()
    rows = [_row(backend, result, record) for result, record in drafts]
    for row in rows:
        row.enqueued_at, row.repair_at = now, now + RELAY_DELAY
    if len(rows) == 1:
        insert(rows[0], alias)
        return
    with transaction.atomic(using=alias, savepoint=False):
        for batch in batches(rows, lambda row: len(row.envelope), BATCH_ROWS, BATCH_TEXT):
            TaskRecord.objects.using(alias).bulk_create(batch)


def _row(backend: str, result: TaskResult, record: NewRecord) -> TaskRecord:
    return TaskRecord(
        id=record.id,
        backend=backend,
        task=as_background(result.task).wire_name,
        queue=record.queue,
        priority=record.priority,
        status=Status.WAITING,
        idempotency_key=record.key or "",
        envelope=record.envelope.decode(),
        is_outbox=True,
        delay_ms=record.delay_ms,
    )


def _try(backend: str, push: Callable[[], None]) -> None:
    """Push; what fails is said once until it works again."""
    try:
        push()
    except EnqueueError as error:
        level = logging.DEBUG if backend in _failing else logging.WARNING
        _failing.add(backend)
        logger.log(level, "A worker will push what couldn't be pushed now: %s", error)
    else:
        _failing.discard(backend)
