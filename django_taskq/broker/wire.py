"""Commands on their way: what a script call needs of a connection, and nothing else.

redis-py's own path around each command (retries, metrics, two locks of the pool) costs as much again as the call. A
`Wire` keeps connections that redis-py made, and uses them itself.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import redis
from redis import exceptions as errors

_wires: WeakSet[Wire] = WeakSet()


class Wire:
    """Idle connections to one server; threads share it, and each call has one to itself."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._idle: deque[Any] = deque()
        _wires.add(self)

    def send(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands in one round trip; return each one's reply or error. Nothing is sent twice."""
        connection = self._connected()
        try:
            # One write, so that the server reads once.
            connection.send_packed_command([b"".join(connection.pack_commands(commands))], check_health=False)
            replies = [_reply(connection) for _ in commands]
        except BaseException:
            # An answer that comes late would be taken for that of the next command.
            connection.disconnect()
            raise
        finally:
            self._idle.append(connection)
        return replies

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            try:
                self._idle.pop().disconnect()
            except IndexError:
                break

    def forget(self) -> None:
        """Leave what is idle to the process that this one was forked from."""
        self._idle = deque()

    def _connected(self) -> Any:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._pool.make_connection()
        try:
            connection.connect()
            if _is_stale(connection):
                connection.disconnect()
                connection.connect()
        except BaseException:
            self._idle.append(connection)
            raise
        return connection


def _forget() -> None:
    for wire in _wires:
        wire.forget()


os.register_at_fork(after_in_child=_forget)


class DirectClient(redis.Redis):
    """A client that sends scripts over a `Wire`, and all else as redis-py does."""

    _wire: Wire | None = None

    def send(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands in one round trip; return each one's reply or error."""
        if self._wire is None:
            self._wire = Wire(self.connection_pool)
        return self._wire.send(commands)

    def drop_idle_connections(self) -> None:
        """Close what is idle: the next command finds the server that is the master now."""
        if self._wire is not None:
            self._wire.close()
        self.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        super().close()


def _is_stale(connection: Any) -> bool:
    """Tell whether the server closed an idle connection, or has said what nobody asked."""
    try:
        return bool(connection.can_read())
    except (errors.ConnectionError, errors.TimeoutError, OSError):
        return True


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except errors.ResponseError as error:
        return error
