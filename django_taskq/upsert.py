"""Write rows under their fencing token, in one statement.

The statement is the database's own: Django's `bulk_create` can replace rows, but not leave the newer ones alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from .models import TaskRecord

#: Databases that can do it, as Django calls their kinds.
VENDORS = ("mysql", "postgresql", "sqlite")

_FIELDS = TaskRecord._meta.concrete_fields
_COLUMNS = [str(field.column) for field in _FIELDS]
_SUCCEEDED = TaskRecord.Status.SUCCEEDED.value


def upsert(connection: BaseDatabaseWrapper, rows: Sequence[TaskRecord], *, overrule: bool = False) -> None:
    """Insert rows of different ids; one that is there is replaced when its token is no higher.

    Under an equal token one that says `succeeded` stays, but for another that does; `overrule` replaces it, too.
    """
    with _transaction(connection):
        size = max(connection.ops.bulk_batch_size(_FIELDS, rows), 1)
        for start in range(0, len(rows), size):
            page = rows[start : start + size]
            values = [
                field.get_db_prep_save(getattr(row, field.attname), connection) for row in page for field in _FIELDS
            ]
            with connection.cursor() as cursor:
                cursor.execute(_statement(connection, len(page), overrule), values)


def _transaction(connection: BaseDatabaseWrapper) -> transaction.Atomic | nullcontext[None]:
    """Return a savepoint inside of a transaction; on its own, a statement is a transaction."""
    if connection.in_atomic_block:
        return transaction.atomic(using=connection.alias)
    if not connection.get_autocommit():
        connection.set_autocommit(True)
    return nullcontext()


def _statement(connection: BaseDatabaseWrapper, count: int, overrule: bool) -> str:
    quoted = connection.ops.quote_name
    table, token, status = (quoted(name) for name in (TaskRecord._meta.db_table, "token", "status"))
    columns = [quoted(column) for column in _COLUMNS]
    row = f"({', '.join(['%s'] * len(columns))})"
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * count)}"
    new = "VALUES({})" if connection.vendor == "mysql" else "EXCLUDED.{}"
    old = f"{table}.{{}}"
    newer = f"{old.format(token)} <= {new.format(token)}"
    if not overrule:
        stays = f"{old.format(status)} = '{_SUCCEEDED}' AND {new.format(status)} <> '{_SUCCEEDED}'"
        newer += f" AND NOT ({old.format(token)} = {new.format(token)} AND {stays})"
    if connection.vendor == "mysql":
        # Assignments are made from left to right, and all read the status and the token: these come last.
        columns.sort(key=[status, token].__contains__)
        replaced = ", ".join(f"{column} = IF({newer}, {new.format(column)}, {column})" for column in columns)
        return f"{insert} ON DUPLICATE KEY UPDATE {replaced}"
    if connection.vendor in VENDORS:
        replaced = ", ".join(f"{column} = {new.format(column)}" for column in columns)
        return f"{insert} ON CONFLICT ({quoted('id')}) DO UPDATE SET {replaced} WHERE {newer}"
    raise NotImplementedError(f"Rows can't be kept in {connection.display_name}.")
