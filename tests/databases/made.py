"""Leases and endings as a child has them, without Redis."""

from __future__ import annotations

import json
from typing import Any

from django_taskq.broker.envelope import Envelope
from django_taskq.broker.ids import new_id
from django_taskq.broker.records import AttemptError, Lease
from django_taskq.models import TaskRecord
from django_taskq.results import moment
from django_taskq.rows import Row, from_ending
from django_taskq.worker.endings import Ending
from django_taskq.worker.outcomes import Failed, Succeeded

#: 2026-11-29 12:00 UTC, in ms; every token and moment of the tests starts here.
NOON = 1_795_953_600_000
CHILD = "worker.abcdefgh"


def lease(record_id: str = "", *, token: int = NOON, attempt: int = 1, task: bytes = b"", **fields: Any) -> Lease:
    """Return a lease of a record that was enqueued at noon and claimed a second later."""
    envelope = Envelope(**{"name": "tests.app.tasks.add", "args": [1], "kwargs": {"b": 2}, **fields})
    return Lease(
        id=record_id or new_id(),
        queue="mail",
        token=token,
        attempt=attempt,
        releases=0,
        unknown_ms=None,
        task=task or f"{NOON} 10 mail\nkey 1000 order-1\n\n".encode() + envelope.to_bytes(),
        claimed_at=NOON + 1000,
        deadline=0.0,
    )


def succeeded(held: Lease, result: Any = 3, ended_at: int = NOON + 2000) -> Ending:
    return Ending(held, Succeeded(json.dumps({"result": result}).encode()), CHILD, ended_at=ended_at)


def failed(held: Lease, error: AttemptError, ended_at: int = NOON + 2000, **fields: Any) -> Ending:
    """Return the end of a last attempt."""
    return Ending(held, Failed(error, None), CHILD, ended_at=ended_at, **fields)


def row(ending: Ending) -> Row:
    return from_ending(ending, "default", None)


def stored(held: Lease) -> TaskRecord:
    return TaskRecord.objects.get(pk=held.id)


def unsaved(written: Row) -> TaskRecord:
    """Return a row as it would be read, without a database."""
    columns = written._asdict().items()
    times = {name: moment(value) for name, value in columns if name.endswith("_at") and value is not None}
    return TaskRecord(**{**dict(columns), **times})
