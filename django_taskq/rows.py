"""Between a record and its row.

A row holds what its record held, so that it is read back as one. No database takes every text (NUL and lone
surrogates here, emoji there, megabytes elsewhere), so each is made storable; JSON loses nothing by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from . import results
from .broker.envelope import Head
from .broker.exceptions import UnreadableRecord
from .broker.records import Attempt, AttemptError, Lease, Record, State
from .compat import TaskResult
from .models import TaskRecord
from .texts import ascii_of, decoded, parsed, quoted, storable, to_json
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
#: What a row says of a record that has ended. A duplicate is none: what it stands for may still run.
ENDED = (Status.SUCCEEDED, Status.DEAD, Status.CANCELLED)
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


class Row(NamedTuple):
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
    result = "" if record.result is None else to_json(record.result)
    ended = record.finished_at if record.finished_at is not None else record.died_at
    times = record.started_at, record.last_attempted_at, ended
    return _row(record, alias, record.state, record.attempts, worker, result, _entries_of(record.history), *times)


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
    history = [_entry(lease.attempt, lease.token, began, ended, child, error)]
    if known:
        history[:0] = _entries_of([attempt for attempt in known.history if attempt.token != lease.token])
    started = (known and known.started_at) or began
    return _row(lease, alias, state, lease.attempt, child, result, history, started, began, ended)


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
    history: Sequence[str],
    started_at: int | None,
    last_attempted_at: int | None,
    finished_at: int | None,
) -> Row:
    head = of.head
    try:
        name = of.envelope.name
    except UnreadableRecord:
        name = results.UNREADABLE
    return Row(
        storable(of.id)[: _LENGTHS["id"]],
        _fitted("backend", alias),
        _fitted("task", name),
        _fitted("queue", head.queue),
        max(_SMALLEST, min(head.priority, -_SMALLEST - 1)),
        _STATUSES[state].value,
        of.token,
        min(attempts, _LARGEST),
        _fitted("worker", worker),
        storable(head.key)[: _LENGTHS["idempotency_key"]] if head.key else "",
        storable(decoded(of.envelope_bytes)),
        result,
        f"[{','.join(history)}]",
        _time(head.enqueued_at),
        None if started_at is None else _time(started_at),
        None if last_attempted_at is None else _time(last_attempted_at),
        None if finished_at is None else _time(finished_at),
    )


def to_record(row: TaskRecord) -> Record:
    """Return the record that a row was made of."""
    state = _STATES[Status(row.status)]
    history = tuple(_attempts(row.history))
    if state is State.SUCCEEDED and row.result:
        last = history[-1] if history else Attempt(row.attempts, row.token, 0, 0, row.worker, None)
        history = (*history[:-1], replace(last, error=None, result=parsed(row.result)))
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


def find(record_id: str, alias: str, database: str | None = None, statuses: Sequence[str] = ()) -> TaskResult | None:
    """Return the result that the row of a record stands for, if there is one that says one of these statuses, or any.

    Without a name the router chooses the database.
    """
    found = TaskRecord.objects.using(database).filter(pk=record_id, backend=_fitted("backend", alias))
    return next(map(to_result, found.filter(status__in=statuses) if statuses else found), None)


def plain(row: Row) -> Row:
    """Return a row that says the same in ASCII."""
    texts: dict[str, Any] = {column: ascii_of(getattr(row, column))[: _LENGTHS[column]] for column in _LENGTHS}
    for column in _JSON_COLUMNS:
        text = getattr(row, column)
        try:
            texts[column] = text and json.dumps(json.loads(text), separators=(",", ":"))
        except (ValueError, RecursionError):
            texts[column] = ascii_of(text)
    return row._replace(**texts)


def bare(row: Row) -> Row:
    """Return a row with no text that a task gave, but the start of its last error."""
    other = plain(row)
    last = [{**entry, **_shortened(entry)} for entry in _entries(other.history)[-1:]]
    envelope, history = json.dumps({"name": other.task}), json.dumps(last)
    return other._replace(envelope=envelope, result="", history=history, idempotency_key="")


def _shortened(entry: dict[str, Any]) -> dict[str, str]:
    return {name: str(entry[name])[:_BARE_MESSAGE] for name in _SAID if name in entry}


def _said(outcome: object) -> tuple[AttemptError | None, str]:
    """Return the error of an outcome, and the JSON of its result, as they stand in its log line."""
    if isinstance(outcome, Succeeded):
        result = None if outcome.log_json in _NO_RESULT else parsed(outcome.log_json.decode()).get("result")
        return None, "" if result is None else to_json(result)
    assert isinstance(outcome, Failed)
    return AttemptError(**json.loads(outcome.error.to_json())), ""


def _entries_of(history: Sequence[Attempt]) -> list[str]:
    return [
        _entry(each.attempt, each.token, each.started_at, each.ended_at, each.child, each.error) for each in history
    ]


def _entry(attempt: int, token: int, started_at: int, ended_at: int, child: str, error: AttemptError | None) -> str:
    """Return the JSON of an attempt; of most, an encoder would take longer than all else that makes their rows."""
    said = ""
    if error is not None:
        said = "".join(
            f',"{name}":{to_json(text)}' for name in _SAID if (text := getattr(error, name)) or name == "error"
        )
    times = f'"started_at":{started_at},"ended_at":{ended_at}'
    return f'{{"attempt":{attempt},"token":{token},{times},"child":{quoted(child)}{said}}}'


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
    entries = parsed(history)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


@lru_cache(512)
def _fitted(column: str, text: str) -> str:
    """Return what is stored of a text that many rows have."""
    return storable(text)[: _LENGTHS[column]]


def _time(ms: int) -> int:
    return ms if 0 <= ms <= _LATEST else max(0, min(ms, _LATEST))


def _ms_or_none(when: datetime | None) -> int | None:
    return None if when is None else results.milliseconds_of(when)
