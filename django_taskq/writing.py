"""Write rows: no text keeps one out, and one row that the database refuses costs no other."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from . import rows
from .broker.batches import batches
from .models import TaskRecord
from .rows import Row
from .upsert import Rule, insert, upsert
from .worker.endings import NotRecorded

logger = logging.getLogger("django_taskq.worker")

#: Rows in one statement, and characters of their texts: MariaDB takes 16 MB, and escaping may double it.
BATCH_ROWS, BATCH_TEXT = 1000, 4_000_000
#: Rows in a row that can't be written in any form; then it isn't the rows.
_MOST_REFUSED = 3
#: Seconds. A database refuses a text sooner; what takes longer waited for something.
_PATIENCE = 3.0
#: Characters of an error in a log line.
_SHOWN = 500


def write_finished(finished: Iterable[Row], *, alias: str | None = None, rule: Rule = Rule.NEWER) -> None:
    """Write rows, as `upsert` does, into the database that the router names or into another.

    Text that the database refuses never keeps a row out: it is written without it. Raise `NotRecorded` when
    the database takes no rows.
    """
    connection = connections[alias or router.db_for_write(TaskRecord)]
    # A broken connection shows at the first statement and is made anew; to ask it before costs a round trip each time.
    connection.health_check_done = True  # type: ignore[attr-defined]  # missing in django-stubs
    pages = list(batches(_newest(finished), _length, BATCH_ROWS, BATCH_TEXT))
    unwritten: list[Row] = []
    cause: Exception | None = None
    for index, batch in enumerate(pages):
        refused, cause = _write(connection, batch, rule)
        unwritten += refused
        if len(refused) == len(batch):
            unwritten += (row for later in pages[index + 1 :] for row in later)
            break
    if connection.settings_dict["CONN_MAX_AGE"] != 0:
        tidy(connection)
    if unwritten:
        assert cause is not None
        raise NotRecorded([row.id for row in unwritten], cause) from cause


def _newest(finished: Iterable[Row]) -> list[Row]:
    """Return one row for each id, in the order in which all writers lock them."""
    newest: dict[str, Row] = {}
    for row in finished:
        if row.id not in newest or _order(newest[row.id]) <= _order(row):
            newest[row.id] = row
    return sorted(newest.values(), key=lambda row: row.id)


def _order(row: Row) -> tuple[int, bool]:
    return row.token, row.status == TaskRecord.Status.SUCCEEDED


def _length(row: Row) -> int:
    return len(row.envelope) + len(row.result) + len(row.history)


def _write(connection: BaseDatabaseWrapper, batch: Sequence[Row], rule: Rule) -> tuple[Sequence[Row], Exception | None]:
    """Write rows in one statement, or each in its own; return those that couldn't be written, and why."""
    for _ in range(2):
        began = time.monotonic()
        try:
            if rule is not Rule.NEWER or not insert(connection, batch):
                upsert(connection, batch, rule=rule)
            return [], None
        except Exception as error:
            cause = error
        if time.monotonic() - began > _PATIENCE:
            return batch, cause
        if _answers(connection):
            break  # It isn't the connection, so it may be one of the rows.
        tidy(connection)
        try:
            connection.ensure_connection()
        except Exception as error:
            return batch, error
    return _write_singly(connection, batch, cause, rule)


def _write_singly(
    connection: BaseDatabaseWrapper, batch: Sequence[Row], cause: Exception, rule: Rule
) -> tuple[Sequence[Row], Exception | None]:
    unwritten: list[Row] = []
    in_a_row = 0
    for index, row in enumerate(batch):
        began = time.monotonic()
        error = _write_somehow(connection, row, rule)
        in_a_row = in_a_row + 1 if error else 0
        if error:
            unwritten.append(row)
            cause = error
        if in_a_row >= _MOST_REFUSED or (error and time.monotonic() - began > _PATIENCE):
            return [*unwritten, *batch[index + 1 :]], cause
    return unwritten, cause


def _write_somehow(connection: BaseDatabaseWrapper, row: Row, rule: Rule) -> Exception | None:
    """Write a row, if need be in ASCII, or without its texts; return None when that worked."""
    failure: Exception | None = None
    for how, version in (("", None), ("", None), ("in ASCII", rows.plain), ("without its texts", rows.bare)):
        try:
            upsert(connection, [version(row) if version else row], rule=rule)
        except Exception as error:
            tidy(connection)
            if failure is None and not _takes(connection, rows.bare(row), rule):
                return error  # It isn't the texts.
            failure = error if failure is None else failure
            continue
        if failure and how:
            shown = f"{type(failure).__name__}: {failure}"[:_SHOWN]
            logger.warning("The database refused the row of %s, so it is kept %s: %s", row.id, how, shown)
        return None
    return failure


def _takes(connection: BaseDatabaseWrapper, row: Row, rule: Rule) -> bool:
    """Tell whether a row could be written now; it isn't."""
    try:
        with transaction.atomic(using=connection.alias):
            upsert(connection, [row], rule=rule)
            transaction.set_rollback(True, using=connection.alias)
    except Exception:
        tidy(connection)
        return False
    return True


def _answers(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether a connection that failed is still good for something."""
    try:
        return connection.connection is not None and connection.is_usable()
    except Exception:
        return False


def tidy(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that is broken, or as old as it may get; not in the middle of a transaction."""
    if connection.in_atomic_block:
        return
    try:
        connection.close_if_unusable_or_obsolete()
    except Exception:
        connection.connection = None
