"""Between a record and its row.

A row holds what its record held, so that it is read back as one. No database takes every text (NUL and lone
surrogates here, emoji there, megabytes elsewhere), so each is made storable; JSON loses nothing by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from . import results
from .broker.envelope import Head
from .broker.exceptions import UnreadableRecord
from .broker.records import Attempt, AttemptError, Lease, Record, State
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
#: What most tasks return needn't be parsed.
_NO_RESULT = (b"{}", b'{"result":null}')
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
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


@dataclass
class Row:
    """What is to be written into a row, by column; times are in ms.

    Thousands are made in a second, and a model instance takes longer to make than the task often did to run.
    """

    id: str
    backend: str
    task: str
    queue: str
    priority: int
    status: str
    token: int
    attempts: int
    worker: str
    idempotency_key: str
    envelope: str
    result: str
    history: str
    enqueued_at: int
    started_at: int | None
    last_attempted_at: int | None
    finished_at: int | None
    repair_at: int | None = None  # Nothing is left to repair of what has ended.


def from_record(record: Record, alias: str) -> Row:
    """Return the row of a record."""
    worker = record.worker or next((attempt.child for attempt in reversed(record.history)), "")
    result = "" if record.result is None else _json(record.result)
    ended = record.finished_at if record.finished_at is not None else record.died_at
    times = record.started_at, record.last_attempted_at, ended
    return _row(record, alias, record.state, record.attempts, worker, result, record.history, *times)


def from_ending(ending: Ending, alias: str, known: Record | None) -> Row:
    """Return the row of a record that is about to end; `known` is what Redis holds of it before that.

    It may be None for a first attempt: then the lease says it all.
    """
    lease, state = ending.lease, ending.state
    assert state is not None, "a record that goes on has no row"
    began = (known and known.last_attempted_at) or lease.claimed_at
    ended = max(ending.ended_at, began)
    child = ending.child or (known and known.worker) or ""
    error, result = _said(ending.outcome)
    last = Attempt(lease.attempt, lease.token, began, ended, child, error)
    earlier = [attempt for attempt in known.history if attempt.token != lease.token] if known else []
    times = (known and known.started_at) or began, began, ended
    return _row(lease, alias, state, lease.attempt, child, result, [*earlier, last], *times)


def from_lease(lease: Lease, alias: str, child: str) -> Row:
    """Return the row of a record that is about to run."""
    return _row(lease, alias, State.LEASED, lease.attempt, child, "", [], lease.claimed_at, lease.claimed_at, None)


def _row(
    of: Record | Lease,
    alias: str,
    state: State,
    attempts: int,
    worker: str,
    result: str,
    history: Sequence[Attempt],
    *times: int | None,
) -> Row:
    head = of.head
    try:
        name = of.envelope.name
    except UnreadableRecord:
        name = results.UNREADABLE
    return Row(
        _storable(of.id)[: _LENGTHS["id"]],
        _storable(alias)[: _LENGTHS["backend"]],
        _storable(name)[: _LENGTHS["task"]],
        _storable(head.queue)[: _LENGTHS["queue"]],
        max(_SMALLEST, min(head.priority, -_SMALLEST - 1)),
        _STATUSES[state].value,
        of.token,
        min(attempts, _LARGEST),
        _storable(worker)[: _LENGTHS["worker"]],
        _storable(head.key or "")[: _LENGTHS["idempotency_key"]],
        _storable(_decoded(of.envelope_bytes)),
        result,
        _json([_entry(attempt) for attempt in history]),
        max(0, min(head.enqueued_at, _LATEST)),
        *(None if ms is None else max(0, min(ms, _LATEST)) for ms in times),
    )


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


def find(record_id: str, alias: str, database: str | None = None) -> TaskResult | None:
    """Return the result that the row of a record stands for, if there is one; the router names the database."""
    found = TaskRecord.objects.using(database).filter(pk=record_id, backend=_storable(alias)[: _LENGTHS["backend"]])
    return next(map(to_result, found), None)


def plain(row: Row) -> Row:
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


def bare(row: Row) -> Row:
    """Return a row with no text that a task gave, but the start of its last error."""
    other = plain(row)
    last = [{**entry, **_shortened(entry)} for entry in _entries(other.history)[-1:]]
    other.envelope, other.result, other.history = json.dumps({"name": other.task}), "", json.dumps(last)
    other.idempotency_key = ""
    return other


def _shortened(entry: dict[str, Any]) -> dict[str, str]:
    return {name: str(entry[name])[:_BARE_MESSAGE] for name in _SAID if name in entry}


def _said(outcome: object) -> tuple[AttemptError | None, str]:
    """Return the error of an outcome, and the JSON of its result, as they stand in its log line."""
    if isinstance(outcome, Succeeded):
        result = None if outcome.log_json in _NO_RESULT else _parsed(outcome.log_json.decode()).get("result")
        return None, "" if result is None else _json(result)
    assert isinstance(outcome, Failed)
    return AttemptError(**json.loads(outcome.error.to_json())), ""


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
    return _storable(_encode(value))


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


def _ms_or_none(when: datetime | None) -> int | None:
    return None if when is None else results.milliseconds_of(when)
