"""Run the body of a task in the transaction that says that it is done."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from . import fence, rows
from .attempt import Attempt
from .broker.broker import Broker
from .broker.exceptions import TaskqError
from .broker.inspector import Inspector
from .broker.records import Lease, Record
from .commit import ensure_autocommit
from .rows import Row
from .verdicts import Verdicts
from .worker.endings import Ending
from .worker.forks import Body
from .worker.outcomes import Outcome, Succeeded

logger = logging.getLogger("django_taskq.worker")

#: Times that a body is run again because its transaction lost against another; then the attempt has failed.
RERUNS = 3

#: What libpq calls a transaction in which a statement has failed.
_PQTRANS_INERROR = 3


class InDoubt(Exception):
    """The body is done, but whether its effects are there only the row can tell."""


class NotOurs(Exception):
    """The row was begun under another token, or is closed."""


class Effects:
    """Runs the tasks of one backend whose effects in a database are to happen exactly once."""

    def __init__(self, backend: str, broker: Broker, verdicts: Verdicts, most_bytes: int) -> None:
        self._backend = backend
        self._inspector = Inspector(broker)
        self._verdicts = verdicts
        self._most_bytes = most_bytes

    def run(self, attempt: Attempt, alias: str) -> Outcome:
        """Run the body of an attempt that its row has begun; raise what it raised, its effects undone."""
        lease, child, connection = attempt.lease, attempt.control.child, connections[alias]
        ensure_autocommit(connection)
        known = self._known(lease)
        for _ in range(1 + RERUNS):
            try:
                return self._run(attempt, alias, known)
            except InDoubt as doubt:
                error = doubt.__cause__
            shown = f"{type(error).__name__}: {error}".strip()
            logger.warning("The transaction of %s didn't come through, so its row is asked: %s", lease.id, shown)
            _close(connection)
            outcome = self._verdicts.begin(lease, child)
            if outcome is not None:
                return outcome
        assert error is not None, "doubt has a cause"
        raise error

    def _run(self, attempt: Attempt, alias: str, known: Record | None) -> Succeeded:
        connection = connections[alias]
        is_over = False
        try:
            with transaction.atomic(using=alias):
                savepoint = None if connection.vendor == "postgresql" else connection.savepoint()
                with attempt.control.limit(), Body():
                    value = attempt.call()
                _require_whole(connection, savepoint)
                succeeded = attempt.succeeded(value, self._most_bytes)
                is_over = True
                if not fence.close(alias, self._row(attempt, succeeded, known)):
                    raise NotOurs("another run has its row, or somebody closed it")
                # One that raises is logged, and those behind it are called, for the task is done by then.
                hooks: list[Any] = connection.run_on_commit
                hooks[:] = [(savepoints, hook, True) for savepoints, hook, _ in hooks]
        except BaseException as error:
            if is_over or fence.is_conflict(error):
                raise InDoubt from error
            raise
        return replace(succeeded, is_recorded=alias == attempt.lease.head.record_alias)

    def _row(self, attempt: Attempt, succeeded: Succeeded, known: Record | None) -> Row:
        """Return what the row is to say, in ASCII, which no database refuses."""
        row = rows.from_ending(Ending(attempt.lease, succeeded, attempt.control.child), self._backend, known)
        return row if row.result.isascii() and row.history.isascii() else rows.plain(row)

    def _known(self, lease: Lease) -> Record | None:
        """Return what Redis holds of earlier attempts; without an answer the row doesn't tell of them."""
        try:
            return self._inspector.record(lease.id) if lease.attempt > 1 else None
        except TaskqError:
            return None


def _require_whole(connection: BaseDatabaseWrapper, savepoint: str | None) -> None:
    """Raise where a part of what the body did is undone, or committed already."""
    info = getattr(connection.connection, "info", None)
    if connection.needs_rollback or getattr(info, "transaction_status", None) == _PQTRANS_INERROR:
        raise TransactionManagementError(
            "The task caught an error that its transaction doesn't survive. Put what may fail into a nested atomic()."
        )
    try:
        if savepoint is not None:
            connection.savepoint_commit(savepoint)
    except DatabaseError as error:
        raise TransactionManagementError(
            "The transaction ended before the task did: by a deadlock that it caught, by DDL or by SQL of its own."
        ) from error


def _close(connection: BaseDatabaseWrapper) -> None:
    """Let the next statement have a connection of its own, unless a transaction surrounds all, as in a test."""
    if connection.in_atomic_block:
        return
    try:
        connection.close()
    except Exception:
        connection.connection = None
