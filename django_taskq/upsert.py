"""Write rows, in one statement: new ones, or under their fencing token what may be there.

The statement is the database's own: Django's `bulk_create` can replace rows, but not leave the newer ones alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from enum import Enum
from functools import lru_cache
from typing import Any

from django.db import IntegrityError, NotSupportedError, ProgrammingError, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from .commit import ensure_autocommit
from .models import TaskRecord
from .results import EPOCH, MILLISECOND, moment
from .rows import Row

#: Databases that can do it, as Django calls their kinds.
VENDORS = ("mysql", "postgresql", "sqlite")

_NAMES = Row._fields
_FIELDS = [field for field in TaskRecord._meta.concrete_fields if field.attname in _NAMES]
assert tuple(field.attname for field in _FIELDS) == _NAMES, "a row has its columns in the order of the model"
_TIMES = {field for field in _FIELDS if isinstance(field, models.DateTimeField)}
#: What the end of a task changes in a row that was there before.
CHANGED = (
    *("token", "status", "attempts", "worker", "result", "history"),
    *("started_at", "last_attempted_at", "finished_at", "repair_at"),
)
_WAITING, _RUNNING, _SUCCEEDED = (
    status.value for status in (TaskRecord.Status.WAITING, TaskRecord.Status.RUNNING, TaskRecord.Status.SUCCEEDED)
)
#: The columns that hold texts.
_TEXTS = {field for field in _FIELDS if isinstance(field, models.CharField | models.TextField)}
#: For PostgreSQL, where a statement is the same for however many rows.
_statements: dict[Rule, str] = {}


class Rule(Enum):
    """Which row that is there is replaced."""

    #: One whose token is no higher; under an equal one a row that says `succeeded` stays, but for another that does.
    NEWER = "newer"
    #: One whose token is no higher.
    OVERRULE = "overrule"
    #: One that is open: by a success only under its token, as the row of a run that has begun.
    OPEN = "open"


def upsert(connection: BaseDatabaseWrapper, rows: Sequence[Row], rule: Rule = Rule.NEWER) -> None:
    """Insert rows of different ids; one that is there is replaced if the rule says so."""
    with _transaction(connection), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Whatever the rows, one short statement: what has parameters for each takes too long to take apart.
            if (statement := _statements.get(rule)) is None:
                statement = f"INSERT INTO {_table(connection)} {_selection(connection)} {_ending(connection, rule)}"
                _statements[rule] = statement
            columns = [_texts(of) if field in _TEXTS else _numbers(of) for field, of in _columns(rows)]
            cursor.execute(statement, columns)
            return
        ending = _ending(connection, rule)
        size = max(connection.ops.bulk_batch_size(_FIELDS, rows), 1)
        for start in range(0, len(rows), size):
            page = rows[start : start + size]
            places = ", ".join([f"({', '.join(['%s'] * len(_FIELDS))})"] * len(page))
            values = [value for row in page for value in _values(connection, row)]
            cursor.execute(f"INSERT INTO {_table(connection)} VALUES {places} {ending}", values)


def insert(connection: BaseDatabaseWrapper, rows: Sequence[Row]) -> bool:
    """Insert new rows where that can be done quicker than by `upsert`; return False when none was inserted.

    PostgreSQL copies them, in half the time, unless one is there, or the table has policies for its rows or is a view.
    """
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        return False
    ensure_autocommit(connection)
    try:
        with connection.wrap_database_errors, connection.cursor() as cursor:
            if not hasattr(cursor, "copy"):  # psycopg 2
                return False
            lines = zip(*(_copied(field, values) for field, values in _columns(rows)), strict=True)
            with cursor.copy(f"COPY {_table(connection)} FROM STDIN") as copy:
                copy.write("".join(["\t".join(line) + "\n" for line in lines]))
    except (IntegrityError, NotSupportedError, ProgrammingError):
        return False
    return True


def _columns(rows: Sequence[Row]) -> Iterable[tuple[models.Field[Any, Any], Sequence[Any]]]:
    return zip(_FIELDS, zip(*rows, strict=True), strict=True)


def _copied(field: models.Field[Any, Any], values: Sequence[Any]) -> Iterable[str]:
    """Return the values of a column as COPY wants them; no text has a NUL, so that all are escaped at once."""
    if field in _TEXTS:
        joined = "\0".join(values).replace("\\", "\\\\").replace("\t", "\\t")
        return joined.replace("\n", "\\n").replace("\r", "\\r").split("\0")
    return map(_copied_time if field in _TIMES else str, values)


@lru_cache(512)
def _copied_time(ms: int | None) -> str:
    return "\\N" if ms is None else (EPOCH + ms * MILLISECOND).isoformat()


def _transaction(connection: BaseDatabaseWrapper) -> transaction.Atomic | nullcontext[None]:
    """Return a savepoint inside of a transaction; on its own, a statement is a transaction."""
    if connection.in_atomic_block:
        return transaction.atomic(using=connection.alias)
    ensure_autocommit(connection)
    return nullcontext()


def _table(connection: BaseDatabaseWrapper) -> str:
    """Return the table with the columns that are written."""
    quoted = connection.ops.quote_name
    return f"{quoted(TaskRecord._meta.db_table)} ({', '.join(map(quoted, _NAMES))})"


def _selection(connection: BaseDatabaseWrapper) -> str:
    """Return what makes rows of arrays, one for each column."""
    chosen, names, arrays = [], [], []
    for field in _FIELDS:
        name = connection.ops.quote_name(field.attname)
        names.append(name)
        # What is too long is to be refused, not cut.
        arrays.append(f"%s::{'text' if field in _TEXTS else 'bigint'}[]")
        is_time = field in _TIMES
        chosen.append(f"to_timestamp({name} / 1000) + {name} %% 1000 * interval '1 millisecond'" if is_time else name)
    return f"SELECT {', '.join(chosen)} FROM unnest({', '.join(arrays)}) AS given({', '.join(names)})"


def _texts(values: Sequence[str]) -> str:
    """Return the literal of an array; no text has a NUL, so that one parts them while all are quoted at once."""
    joined = "\0".join(values)
    if joined.count("\0") != len(values) - 1:
        raise ValueError("PostgreSQL takes no text with NUL.")
    return '{"' + joined.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","') + '"}'


def _numbers(values: Iterable[int | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def _values(connection: BaseDatabaseWrapper, row: Row) -> list[Any]:
    given: Sequence[Any] = row
    return [
        field.get_db_prep_save(moment(value), connection) if field in _TIMES and value is not None else value
        for field, value in zip(_FIELDS, given, strict=True)
    ]


def _ending(connection: BaseDatabaseWrapper, rule: Rule) -> str:
    """Return what a statement says of rows that are there."""
    quoted = connection.ops.quote_name
    columns = [quoted(name) for name in (CHANGED if rule is Rule.OPEN else _NAMES)]
    new = "VALUES({})" if connection.vendor == "mysql" else "EXCLUDED.{}"
    condition = _condition(connection, rule, new)
    if connection.vendor == "mysql":
        # Assignments are made from left to right, and all read the token and the status. So these come last, in the
        # order in which the rule is still true for the second when the first is new.
        last = [quoted("token"), quoted("status")] if rule is Rule.OPEN else [quoted("status"), quoted("token")]
        columns = [*(column for column in columns if column not in last), *last]
        replaced = ", ".join(f"{column} = IF({condition}, {new.format(column)}, {column})" for column in columns)
        return f"ON DUPLICATE KEY UPDATE {replaced}"
    if connection.vendor in VENDORS:
        replaced = ", ".join(f"{column} = {new.format(column)}" for column in columns)
        return f"ON CONFLICT ({quoted('id')}) DO UPDATE SET {replaced} WHERE {condition}"
    raise NotImplementedError(f"Rows can't be kept in {connection.display_name}.")


def _condition(connection: BaseDatabaseWrapper, rule: Rule, new: str) -> str:
    """Return the SQL of a rule."""
    table, token, status = (connection.ops.quote_name(name) for name in (TaskRecord._meta.db_table, "token", "status"))
    old_token, new_token = f"{table}.{token}", new.format(token)
    old_status, new_status = f"{table}.{status}", new.format(status)
    newer = f"{old_token} <= {new_token}"
    if rule is Rule.OVERRULE:
        return newer
    if rule is Rule.NEWER:
        stays = f"{old_status} = '{_SUCCEEDED}' AND {new_status} <> '{_SUCCEEDED}'"
        return f"{newer} AND NOT ({old_token} = {new_token} AND {stays})"
    success = f"{new_status} = '{_SUCCEEDED}' AND {old_token} = {new_token} AND {old_status} = '{_RUNNING}'"
    other = f"{new_status} <> '{_SUCCEEDED}' AND {newer} AND {old_status} IN ('{_WAITING}', '{_RUNNING}')"
    return f"({success} OR {other})"
