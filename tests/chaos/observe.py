"""What is there in the end, noted in the history: records, rows, effects, orders, and keys that leaked.

``python -m tests.chaos.observe wait`` waits until nothing is open any more, ``... read`` notes it all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import django

from tests.chaos.history import note, note_all

#: Seconds that what is left may take when nothing goes wrong any more, and records that are read at once.
PATIENCE, PAGE = 150, 500

Noted = tuple[str, dict[str, Any]]


def wait() -> None:
    """Wait until every task has ended; note how long that took, or what is left."""
    since = time.monotonic()
    while left := [*_open_records(), *_open_rows()]:
        if time.monotonic() > since + PATIENCE:
            note("not drained", left=left[:20], count=len(left))
            return
        time.sleep(0.2)
    note("drained", since=since)


def _open_records() -> Iterator[str]:
    from django_taskq.broker.inspector import Inspector

    inspector = Inspector(_broker())
    for queue in inspector.queues():
        for place in ("ready", "scheduled", "leased"):
            yield from (f"{place} {record_id}" for record_id, _ in inspector.listing(queue, place))


def _open_rows() -> Iterator[str]:
    from django.conf import settings

    from django_taskq.models import TaskRecord

    if settings.HAS_DATABASE:
        rows = TaskRecord.objects.filter(status__in=["waiting", "running"], is_outbox=True)
        yield from (f"{status} row {record_id}" for record_id, status in rows.values_list("id", "status"))


def read() -> None:
    """Note everything."""
    from django.conf import settings

    from tests.leaks import key_leaks

    broker = _broker()
    note_all(_records(broker))
    note_all(("leak", {"text": text}) for text in key_leaks(broker.client))
    if settings.HAS_DATABASE:
        note_all(_rows())


def _records(broker: Any) -> Iterator[Noted]:
    from django_taskq.broker.inspector import Inspector

    prefix = broker.keys.task("")
    ids = [key.decode().removeprefix(prefix) for key in broker.client.scan_iter(match=prefix + "*", count=1000)]
    for start in range(0, len(ids), PAGE):
        for record in Inspector(broker).records(ids[start : start + PAGE]):
            if record is not None:
                yield "record", _described(record)


def _described(record: Any) -> dict[str, Any]:
    return {
        "id": record.id,
        "call": record.envelope.args[0],
        "state": str(record.state),
        "token": record.token,
        "attempts": record.attempts,
        "most": record.envelope.max_attempts,
        "result": record.result,
        "history": [
            [attempt.attempt, attempt.token, attempt.error and (attempt.error.reason or attempt.error.error)]
            for attempt in record.history
        ],
    }


def _rows() -> Iterator[Noted]:
    from django_taskq import rows
    from django_taskq.models import TaskRecord
    from tests.chaos.models import Effect, Order

    for row in TaskRecord.objects.iterator():
        result = rows.to_record(row).result if row.status == "succeeded" else None
        what = {name: getattr(row, name) for name in ("id", "status", "token", "attempts")}
        yield "row", {**what, "call": row.args[0], "result": result, "outbox": bool(getattr(row, "is_outbox", False))}
    for effect in Effect.objects.iterator():
        yield "effect row", {"call": effect.call, "id": effect.record, "token": effect.token}
    for call in Order.objects.values_list("call", flat=True).iterator():
        yield "order", {"call": call}


def _broker() -> Any:
    from django_taskq.compat import task_backends

    return task_backends["default"].broker


if __name__ == "__main__":
    django.setup()
    {"wait": wait, "read": read}[sys.argv[1]]()
