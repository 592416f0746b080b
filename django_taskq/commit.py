"""Wait for the commit of the right databases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

#: What to wait for: True, every database with an open block in this thread; an alias, that one; False, none.
OnCommit = bool | str


def is_open(alias: str) -> bool:
    """Tell whether a database has an open block; raise TransactionManagementError in a manual transaction."""
    return _in_block(connections[alias])


def after_commit(action: Callable[[], None], on_commit: OnCommit, besides: str = "") -> bool:
    """Call `action` when all open blocks that it waits for have committed; return False when there is none.

    It waits for the databases that `on_commit` stands for, and for one `besides`.

    It is called once, by the hook of the last of them, and never when one of them rolls back. Nothing here
    opens a connection, as `transaction.on_commit` would: it is enough to look at those that are in use.
    """
    watched = [*_watched(on_commit), *([connections[besides]] if besides else [])]
    waiting = {connection.alias for connection in watched if _in_block(connection)}
    for alias in sorted(waiting):
        connections[alias].on_commit(partial(_committed, alias, waiting, action))
    return bool(waiting)


def ensure_autocommit(connection: BaseDatabaseWrapper) -> None:
    """Let a connection of our own commit what nobody else would, where `AUTOCOMMIT` is off."""
    if not connection.in_atomic_block and not connection.get_autocommit():
        connection.set_autocommit(True)


def _watched(on_commit: OnCommit) -> Sequence[BaseDatabaseWrapper]:
    if on_commit is True:
        return connections.all(initialized_only=True)
    return [connections[on_commit]] if on_commit else []


def _in_block(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether a connection is in an atomic block; manual transactions have no hooks and are refused."""
    if connection.in_atomic_block:
        return True
    connected = connection.connection is not None
    if not (connection.autocommit if connected else connection.settings_dict["AUTOCOMMIT"]):
        raise TransactionManagementError(
            f"A task that waits for the commit can't be enqueued in manual transaction management of the database "
            f"{connection.alias!r}. Use atomic(), or on_commit=False without an outbox."
        )
    return False


def _committed(alias: str, waiting: set[str], action: Callable[[], None]) -> None:
    waiting.discard(alias)
    if not waiting:
        action()
