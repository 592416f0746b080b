"""Rows that are there from the enqueue on: begun by one lease after another, and closed once.

These statements are what makes effects in the database happen exactly once. A run writes its token first, on its own;
the transaction with its effects closes the row only while that token is still in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import DatabaseError, IntegrityError, connections
from django.utils import timezone

from . import rows
from .broker.records import Lease
from .models import TaskRecord
from .outbox import OPEN, RELAY_DELAY, insert
from .results import moment
from .rows import Row
from .upsert import CHANGED

Status = TaskRecord.Status

#: Nothing changes a row that says one of these, and no run begins.
FINAL = (Status.SUCCEEDED, Status.CANCELLED, Status.DUPLICATE)

#: Ids in one statement; SQLite takes only so many.
MOST_IDS = 500

_SQLSTATES = {"40001", "40P01"}  # serialization failure, deadlock
_MARIADB_CODES = {1020, 1205, 1213}  # the row changed since it was read, lock wait timeout, deadlock
_SQLITE_CODES = {5, 6}  # busy, locked


class Standing(NamedTuple):
    """What a row says."""

    token: int
    status: str
    result: str


def start(alias: str, lease: Lease, child: str, backend: str) -> Standing | None:
    """Let a row say that this lease runs its task; return what it says instead, if it knows better.

    A row that isn't there is made: the receipt of effects in another database, or one that somebody deleted.
    """
    begun = moment(lease.claimed_at)
    said = {"token": lease.token, "status": Status.RUNNING, "attempts": lease.attempt, "worker": child}
    times = {"last_attempted_at": begun, "finished_at": None} | ({"started_at": begun} if lease.attempt == 1 else {})
    while True:
        row = TaskRecord.objects.using(alias).filter(pk=lease.id, token__lt=lease.token, status__in=OPEN)
        if row.update(**said, **times):
            break
        standing = read(alias, [lease.id]).get(lease.id)
        if standing is None:
            try:
                _insert(alias, rows.from_lease(lease, backend, child), is_outbox=alias == lease.head.record_alias)
                break
            except IntegrityError:
                continue  # another lease was quicker
        if standing.status == Status.DEAD and standing.token < lease.token:
            # Redis refused the burial, or somebody retried the record without its row.
            reopen(alias, lease.id, standing.token, standing.status)
            continue
        # Under our own token it was begun before, and only the answer was lost.
        return None if standing[:2] == (lease.token, Status.RUNNING) else standing
    commit(alias)
    return None


def close(alias: str, row: Row) -> bool:
    """Let a row that was begun under the token of its end say that; False when another has it, or it is closed."""
    begun = TaskRecord.objects.using(alias).filter(pk=row.id, token=row.token, status=Status.RUNNING)
    return bool(begun.update(**ending(row)))


def read(alias: str, ids: Sequence[str]) -> Mapping[str, Standing]:
    """Return what rows say, by id."""
    found: dict[str, Standing] = {}
    for first in range(0, len(ids), MOST_IDS):
        page = TaskRecord.objects.using(alias).filter(pk__in=ids[first : first + MOST_IDS])
        for record_id, token, status, result in page.values_list("pk", "token", "status", "result"):
            found[record_id] = Standing(token, status, result)
    return found


def replace(alias: str, row: Row) -> None:
    """Let a row say what Redis holds of a record that has ended, but for one that says that it succeeded."""
    older = TaskRecord.objects.using(alias).filter(pk=row.id, token__lte=row.token).exclude(status=Status.SUCCEEDED)
    older.update(**ending(row))
    commit(alias)


def ending(row: Row) -> dict[str, Any]:
    """Return what the end of a task changes in its row."""
    return {name: value for name, value in _columns(row).items() if name in CHANGED}


def reopen(alias: str, record_id: str, token: int, status: str) -> None:
    """Let a row that was closed under a token say that the task goes on."""
    closed = TaskRecord.objects.using(alias).filter(pk=record_id, token=token, status=status)
    for is_outbox, repair_at in ((True, timezone.now() + RELAY_DELAY), (False, None)):
        closed.filter(is_outbox=is_outbox).update(status=Status.RUNNING, finished_at=None, repair_at=repair_at)
    commit(alias)


def commit(alias: str) -> None:
    """Let what was written be there at once, also where each statement isn't committed by itself."""
    connection = connections[alias]
    if not connection.in_atomic_block and not connection.get_autocommit():
        connection.commit()


def is_conflict(error: BaseException) -> bool:
    """Tell whether a database gave up a transaction in favour of another, so that the same may work the next time."""
    if not isinstance(error, DatabaseError):
        return False
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state is not None:
        return state in _SQLSTATES
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # without what extends it
    return code in _SQLITE_CODES or (bool(error.args) and error.args[0] in _MARIADB_CODES)


def _insert(alias: str, row: Row, is_outbox: bool) -> None:
    repair_at = timezone.now() + RELAY_DELAY if is_outbox else None
    insert(TaskRecord(**{**_columns(row), "is_outbox": is_outbox, "repair_at": repair_at}), alias)


def _columns(row: Row) -> dict[str, Any]:
    """Return the columns of a row as the model wants them."""
    return {
        name: moment(value) if value is not None and name.endswith("_at") else value
        for name, value in row._asdict().items()
    }
