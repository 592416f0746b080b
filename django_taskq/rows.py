"""Between a record and its row.

A row holds what its record held, so that it is read back as one. No database takes every text (NUL and lone
surrogates here, emoji there, megabytes elsewhere), so each is made storable; JSON loses nothing by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

from . import results
from .broker.envelope import Head
from .broker.exceptions import UnreadableRecord
from .broker.records import Attempt, AttemptError, Record, State
from .compat import TaskResult
from .models import TaskRecord
from .worker.endings import Ending
from .worker.outcomes import Failed, Succeeded

Status = TaskRecord.Status

_STATUSES = {
    State.WAITING: Status.WAITING,
    State.LEASED: Status.RUNNING,
    State.SUCCEEDED: Status.SUCCEEDED,
    State.DEAD: Status.DEAD,
    State.CANCELLED: Status.CANCELLED,
}
_STATES = {status: state for state, status in _STATUSES.items()} | {Status.DUPLICATE: State.CANCELLED}

#: Milliseconds: the start of the year 9999. Databases differ on what is after it.
_LATEST = 253_370_764_800_000
_SMALLEST, _LARGEST = -(2**15), 2**31 - 1
#: Characters of a message that a row keeps when the database refuses its texts.
_BARE_MESSAGE = 1000

_LENGTHS = {
    field.attname: field.max_length for field in TaskRecord._meta.concrete_fields if field.max_length is not None
}
_JSON_COLUMNS = ("envelope", "result", "history")
#: What is said of an error.
_SAID = ("error", "message", "traceback", "reason")
#: What is only said of a record that hasn't ended.
_NO_LONGER: dict[str, Any] = {
    "releases": 0,
    "cancel_requested": False,
    "due_at": None,
    "lease_ends_at": None,
    "died_at": None,
    "expires_in_ms": None,
}


def from_record(record: Record, alias: str) -> TaskRecord:
    """Return the row of a record, unsaved."""
    try:
        name = record.envelope.name
    except UnreadableRecord:
        name = results.UNREADABLE
    ended = record.finished_at if record.finished_at is not None else record.died_at
    texts = {
        "id": record.id,
        "backend": alias,
        "task": name,
        "queue": record.head.queue,
        "worker": record.worker or next((attempt.child for attempt in reversed(record.history)), ""),
        "idempotency_key": record.head.key or "",
    }
    return TaskRecord(
        **{column: _storable(text)[: _LENGTHS[column]] for column, text in texts.items()},
        priority=max(_SMALLEST, min(record.head.priority, -_SMALLEST - 1)),
        status=_STATUSES[record.state],
        token=record.token,
        attempts=min(record.attempts, _LARGEST),
        envelope=_storable(_decoded(record.envelope_bytes)),
        result="" if record.result is None else _json(record.result),
        history=_json([_entry(attempt) for attempt in record.history]),
        enqueued_at=_moment(record.head.enqueued_at),
        started_at=_moment_or_none(record.started_at),
        last_attempted_at=_moment_or_none(record.last_attempted_at),
        finished_at=_moment_or_none(ended),
    )


def from_ending(ending: Ending, alias: str, known: Record | None) -> TaskRecord:
    """Return the row of a record that is about to end; `known` is what Redis holds of it before that.

    It may be None for a first attempt: then the lease says it all.
    """
    lease, state = ending.lease, ending.state
    assert state is not None, "a record that goes on has no row"
    began = (known and known.last_attempted_at) or lease.claimed_at
    ended = max(ending.ended_at, began)
    child = ending.child or (known and known.worker) or ""
    last = Attempt(lease.attempt, lease.token, began, ended, child, *_said(ending.outcome))
    earlier = [attempt for attempt in known.history if attempt.token != lease.token] if known else []
    record = Record(
        id=lease.id,
        state=state,
        task=lease.task,
        head=lease.head,
        envelope_bytes=lease.envelope_bytes,
        attempts=lease.attempt,
        token=lease.token,
        worker=child,
        started_at=(known and known.started_at) or began,
        last_attempted_at=began,
        finished_at=ended,
        history=(*earlier, last),
        **_NO_LONGER,
    )
    return from_record(record, alias)


def to_record(row: TaskRecord) -> Record:
    """Return the record that a row was made of."""
    state = _STATES[Status(row.status)]
    history = tuple(_attempts(row.history))
    if state is State.SUCCEEDED and row.result:
        last = history[-1] if history else Attempt(row.attempts, row.token, 0, 0, row.worker, None)
        history = (*history[:-1], replace(last, error=None, result=_parsed(row.result)))
    envelope = row.envelope.encode("utf-8", "backslashreplace")
    return Record(
        id=row.id,
        state=state,
        task=b"",
        head=Head(results.milliseconds_of(row.enqueued_at), row.priority, row.queue, row.idempotency_key or None),
        envelope_bytes=envelope,
        attempts=row.attempts,
        token=row.token,
        worker=row.worker or None,
        started_at=_ms_or_none(row.started_at),
        last_attempted_at=_ms_or_none(row.last_attempted_at),
        finished_at=_ms_or_none(row.finished_at),
        history=history,
        **_NO_LONGER,
    )


def to_result(row: TaskRecord) -> TaskResult:
    """Return the result that a row stands for, with nothing validated."""
    return results.from_record(to_record(row), row.backend)


def find(record_id: str, alias: str) -> TaskResult | None:
    """Return the result that the row of a record stands for, if there is one."""
    row = TaskRecord.objects.filter(pk=record_id, backend=_storable(alias)[: _LENGTHS["backend"]]).first()
    return None if row is None else to_result(row)


def same(row: TaskRecord) -> TaskRecord:
    """Return a row as it is."""
    return row


def plain(row: TaskRecord) -> TaskRecord:
    """Return a row that says the same in ASCII."""
    other = copy(row)
    for column in _LENGTHS:
        setattr(other, column, _ascii(getattr(row, column))[: _LENGTHS[column]])
    for column in _JSON_COLUMNS:
        text = getattr(row, column)
        try:
            setattr(other, column, text and json.dumps(json.loads(text), separators=(",", ":")))
        except (ValueError, RecursionError):
            setattr(other, column, _ascii(text))
    return other


def bare(row: TaskRecord) -> TaskRecord:
    """Return a row with no text that a task gave, but the start of its last error."""
    other = plain(row)
    last = [{**entry, **_shortened(entry)} for entry in _entries(other.history)[-1:]]
    other.envelope, other.result, other.history = json.dumps({"name": other.task}), "", json.dumps(last)
    other.idempotency_key = ""
    return other


def _shortened(entry: dict[str, Any]) -> dict[str, str]:
    return {name: str(entry[name])[:_BARE_MESSAGE] for name in _SAID if name in entry}


def _said(outcome: object) -> tuple[AttemptError | None, Any]:
    """Return the error and the result of an outcome as they stand in its log line."""
    if isinstance(outcome, Succeeded):
        return None, _parsed(outcome.log_json.decode()).get("result")
    assert isinstance(outcome, Failed)
    return AttemptError(**json.loads(outcome.error.to_json())), None


def _entry(attempt: Attempt) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "attempt": attempt.attempt,
        "token": attempt.token,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "child": attempt.child,
    }
    if attempt.error is not None:
        entry |= {name: text for name in _SAID if (text := getattr(attempt.error, name)) or name == "error"}
    return entry


def _attempts(history: str) -> Iterator[Attempt]:
    for entry in _entries(history):
        error = AttemptError(*(_text(entry, name) for name in _SAID)) if "error" in entry else None
        yield Attempt(
            attempt=_number(entry, "attempt"),
            token=_number(entry, "token"),
            started_at=_number(entry, "started_at"),
            ended_at=_number(entry, "ended_at"),
            child=_text(entry, "child"),
            error=error,
        )


def _number(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    return value if isinstance(value, int) else 0


def _text(entry: dict[str, Any], name: str) -> str:
    return str(entry.get(name) or "")


def _entries(history: str) -> list[dict[str, Any]]:
    entries = _parsed(history)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _parsed(text: str) -> Any:
    """Return what a JSON text says; what is none, since somebody wrote it by hand, says nothing."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: object) -> str:
    """Return JSON; a lone surrogate becomes its escape, which means the same."""
    return _storable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _decoded(data: bytes) -> str:
    """Decode as the reader of JSON does, which lets surrogates pass; then what isn't text, by its bytes."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def _storable(text: str) -> str:
    """Return a text without NUL, which PostgreSQL refuses, and lone surrogates, which are in no UTF-8."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _moment(ms: int) -> datetime:
    return results.moment(max(0, min(ms, _LATEST)))


def _moment_or_none(ms: int | None) -> datetime | None:
    return None if ms is None else _moment(ms)


def _ms_or_none(when: datetime | None) -> int | None:
    return None if when is None else results.milliseconds_of(when)
