"""Commands on their way: what a script call needs of a connection, and nothing else.

redis-py's own path around each command (retries, metrics, two locks of the pool) costs as much again as the call. A
`Wire` keeps connections that redis-py made, and uses them itself.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

import redis
from redis import exceptions as errors

try:
    import hiredis
except ImportError:
    hiredis = None  # type: ignore[assignment]

#: Commands that may be on their way at once.
AHEAD = 4
#: Bytes that are read at once, as by redis-py.
_READ_BYTES = 65536
#: What hiredis returns while a reply isn't complete.
_MORE = object()

_wires: WeakSet[Wire] = WeakSet()


class Wire:
    """Idle connections to one server; threads share it, and each call has one to itself."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._idle: deque[_Line] = deque()
        _wires.add(self)

    def send(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands in one round trip; return each one's reply or error. Nothing is sent twice."""
        line = self._line()
        try:
            line.open()
            # One write, so that the server reads once.
            line.write(b"".join([pack(command) for command in commands]))
            return [line.read() for _ in commands]
        except BaseException:
            # An answer that comes late would be taken for that of the next command.
            line.close()
            raise
        finally:
            self._idle.append(line)

    def stream(self, commands: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the reply or error of each command, with some more on their way, so that the server has work."""
        line = self._line()
        unanswered = 0
        try:
            line.open()
            for command in commands:
                line.write(pack(command))
                unanswered += 1
                if unanswered == AHEAD:
                    yield line.read()
                    unanswered -= 1
            for _ in range(unanswered):
                yield line.read()
        except BaseException:
            line.close()  # as above
            raise
        finally:
            self._idle.append(line)

    def _line(self) -> _Line:
        try:
            return self._idle.pop()
        except IndexError:
            return _Line(self._pool.make_connection())

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                break

    def forget(self) -> None:
        """Leave what is idle to the process that this one was forked from."""
        self._idle = deque()


class _Line:
    """A connection that redis-py opens and closes, and that is written to and read from directly."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_readable: Callable[[int], Any] | None = None

    def open(self) -> None:
        """Connect, unless it is open and silent; else the server closed it, or has said what nobody asked."""
        if self._is_readable is not None:
            if not self._is_readable(0):
                return
            self.close()
        connection = self._connection
        connection.connect()
        sock = connection._sock
        watch = select.poll()
        watch.register(sock, select.POLLIN)
        self._write, self._read = sock.sendall, connection._parser.read_response
        if hiredis:
            self._read = _reading(sock, connection._parser)
            _leave_timeouts_to_kernel(sock)
        self._is_readable = watch.poll

    def write(self, data: bytes) -> None:
        try:
            self._write(data)
        except (TimeoutError, BlockingIOError):
            raise errors.TimeoutError("Timeout writing to socket") from None
        except OSError as error:
            raise errors.ConnectionError(f"Error while writing to socket: {error}") from error

    def read(self) -> Any:
        """Return a reply, which may be an error."""
        try:
            return self._read()
        except errors.ResponseError as error:
            return error
        except (TimeoutError, BlockingIOError):
            raise errors.TimeoutError("Timeout reading from socket") from None
        except OSError as error:
            raise errors.ConnectionError(f"Error while reading from socket: {error}") from error

    def close(self) -> None:
        self._is_readable = None
        self._connection.disconnect()


def _reading(sock: Any, parser: Any) -> Callable[[], Any]:
    """Return what reads the next reply with hiredis; redis-py's own way takes as long again as the rest of a call."""
    reader = hiredis.Reader(protocolError=errors.InvalidResponse, replyError=parser.parse_error, notEnoughData=_MORE)
    receive, feed, gets = sock.recv, reader.feed, reader.gets

    def read() -> Any:
        while (reply := gets()) is _MORE:
            data = receive(_READ_BYTES)
            if not data:
                raise errors.ConnectionError("Connection closed by server.")
            feed(data)
        # It has too many clients. One that is loading has read the command, and answers the next one, too.
        if isinstance(reply, errors.ConnectionError) and not isinstance(reply, errors.BusyLoadingError):
            raise reply
        return reply

    return read


def _leave_timeouts_to_kernel(sock: Any) -> None:
    """Let a plain socket block in the kernel: Python bounds each send and receive with a poll() of its own."""
    timeout = sock.gettimeout()
    if type(sock) is not socket.socket or not timeout:
        return  # TLS takes several receives for one.
    limit = struct.pack("ll", int(timeout), int(timeout % 1 * 1_000_000))
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    except OSError:
        return
    sock.settimeout(None)
    if not os.get_blocking(sock.fileno()):  # Patched by gevent or the like, for which nothing may block.
        sock.settimeout(timeout)


def _forget() -> None:
    for wire in _wires:
        wire.forget()


os.register_at_fork(after_in_child=_forget)


def packed(command: tuple[Any, ...]) -> bytes:
    """Return a command of texts, bytes and integers as Redis reads it."""
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


#: The same, by hiredis where it is installed.
pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command if hiredis else packed


class DirectClient(redis.Redis):
    """A client that sends scripts over a `Wire`, and all else as redis-py does."""

    _wire: Wire | None = None

    def send(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands in one round trip; return each one's reply or error."""
        return self._wired().send(commands)

    def stream(self, commands: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Run commands while the replies to those before are read; yield each one's reply or error."""
        return self._wired().stream(commands)

    def _wired(self) -> Wire:
        if self._wire is None:
            self._wire = Wire(self.connection_pool)
        return self._wire

    def drop_idle_connections(self) -> None:
        """Close what is idle: the next command finds the server that is the master now."""
        if self._wire is not None:
            self._wire.close()
        self.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        super().close()
