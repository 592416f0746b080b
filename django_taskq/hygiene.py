"""Give each task a thread as a request would find it: no stale connection, no query log, the default language and zone.

Where a task changes nothing, this costs next to nothing: Django says when a connection is made, and a context that
compares equal has no other language in it.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone, translation

logger = logging.getLogger("django_taskq.worker")


class _Thread(threading.local):
    """What is known about one thread."""

    #: Whether it may have open database connections.
    is_connected = False
    #: Whether it runs tasks of its own; the others are those that coroutines send their queries to.
    runs_tasks = False
    #: Its context when it was last clean.
    clean: contextvars.Context | None = None
    #: The databases on which a transaction was open before its task, as in a test.
    in_transaction: frozenset[str] = frozenset()


_thread = _Thread()
#: Set while threads that coroutines use may have open connections.
_connected_for_coroutines = threading.Event()
#: Tells whether there is anything to do around a coroutine; asking costs less than awaiting what does nothing.
is_due_for_coroutines = _connected_for_coroutines.is_set


def watch_connections() -> None:
    """Hear of every database connection that this process makes from now on."""
    connection_created.connect(_note_connection, dispatch_uid="django_taskq.hygiene")


def _note_connection(connection: Any, **kwargs: Any) -> None:
    # A thread may wait long for a task, and a connection that died meanwhile must not fail the next one.
    connection.health_check_enabled = True
    _thread.is_connected = True
    if not _thread.runs_tasks:
        _connected_for_coroutines.set()


def before_task() -> None:
    """Make this thread ready for a task."""
    _thread.runs_tasks = True
    if _thread.is_connected:
        _refresh_connections()
        _thread.in_transaction = frozenset(each.alias for each in _connections() if each.in_atomic_block)


def after_task() -> None:
    """Clean up what a task may have left in this thread."""
    if _thread.is_connected:
        _end_transactions()
        _refresh_connections()
    if _thread.clean is None or contextvars.copy_context() != _thread.clean:
        translation.deactivate()
        timezone.deactivate()
        _thread.clean = contextvars.copy_context()


async def around_coroutine() -> None:
    """Do the same where it is due, before and after a coroutine, for the thread that its queries run in."""
    _connected_for_coroutines.clear()
    await sync_to_async(_refresh_for_coroutines)()


def _refresh_for_coroutines() -> None:
    _refresh_connections()
    if _thread.is_connected:
        _connected_for_coroutines.set()


def _refresh_connections() -> None:
    """Close what is stale on every alias, and forget the queries."""
    try:
        close_old_connections()
        reset_queries()
    except Exception:
        logger.exception("A database connection could not be checked; all are closed")
        _close_all()
    _thread.is_connected = any(each.connection is not None for each in _connections())


def _end_transactions() -> None:
    """Roll back what the task left open, or a time limit that struck at its end: else the next task would write there.

    Django itself closes no connection on which a block is open.
    """
    for connection in _connections():
        if connection.in_atomic_block and connection.alias not in _thread.in_transaction:
            logger.error("A task left a transaction on database %r open; it is rolled back", connection.alias)
            try:
                connection.close()
            except Exception:
                logger.exception("Closing the connection failed")
            # It can't be reset; a new one is made when it is needed.
            del connections[connection.alias]


def _connections() -> Sequence[BaseDatabaseWrapper]:
    """Return the connections of this thread, open or not."""
    return connections.all(initialized_only=True)


def _close_all() -> None:
    for connection in _connections():
        try:
            connection.close()
        except Exception:
            connection.connection = None
