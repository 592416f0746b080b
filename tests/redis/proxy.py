"""A TCP proxy in front of a server, which loses, holds or delays what a test tells it to."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

from tests import servers


class Proxy:
    """Forwards each connection to the port in `target`, as it stands when the connection is opened."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.opened = 0
        #: Seconds by which each reply is late.
        self.delay = 0.0
        #: Set when something was lost; after `lose_reply_to`, the server has executed the request.
        self.has_lost = threading.Event()
        self.port = 0
        self._sockets: list[socket.socket] = []
        self._trigger: tuple[bytes, str, bool] | None = None
        #: Set when what was kept back may arrive.
        self._late = threading.Event()
        #: One for all connections that were opened since the last `silence`.
        self._flows: list[threading.Event] = []
        self._let_flow()
        self.accept()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def lose_reply_to(self, request: bytes, how: str) -> None:
        """Lose the next reply to what contains `request`: `cut` the connection instead, or let it `hang`."""
        self._lose(request, how, True)

    def lose_request(self, request: bytes, how: str) -> None:
        """Keep what contains `request` from the server, the next time: `cut` the connection, or let it `hang`.

        What hangs arrives after `deliver`.
        """
        self._lose(request, how, False)

    def _lose(self, request: bytes, how: str, executed: bool) -> None:
        self.has_lost.clear()
        self._late.clear()
        self._trigger = (request, how, executed)

    def deliver(self) -> None:
        """Let a request that hangs arrive, late."""
        self._late.set()

    def pass_all(self) -> None:
        self._trigger = None

    def hold(self) -> None:
        """Let nothing through and keep all connections open; what is held arrives after `release`."""
        self._flows[-1].clear()

    def release(self) -> None:
        self._flows[-1].set()

    def silence(self) -> None:
        """Let nothing more through the connections that are open; new ones work."""
        self.hold()
        self._let_flow()

    def _let_flow(self) -> None:
        self._flows.append(threading.Event())
        self.release()

    def cut(self) -> None:
        """End every open connection."""
        _end(*self._sockets)

    def accept(self) -> None:
        """Take connections, at the port that they were refused at."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def refuse(self) -> None:
        """Take no further connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()

    def close(self) -> None:
        self.refuse()
        self.cut()
        for held in (*self._flows, self._late):
            held.set()
        for one in [*self._sockets]:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.opened += 1
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(one)
            threading.Thread(target=self._carry, args=(client, server, self._flows[-1]), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket, flow: threading.Event) -> None:
        """Forward both ways until both have ended, and give the sockets back: a long run opens many."""
        lost: list[str] = []
        requests = threading.Thread(target=self._requests, args=(client, server, lost, flow), daemon=True)
        requests.start()
        self._replies(client, server, lost, flow)
        requests.join()
        for one in (client, server):
            one.close()
            self._sockets.remove(one)

    def _requests(self, client: socket.socket, server: socket.socket, lost: list[str], flow: threading.Event) -> None:
        for data in _chunks(client):
            if self._trigger is not None and self._trigger[0] in data:
                (_, how, executed), self._trigger = self._trigger, None
                lost.append(how)
                if not executed:
                    self.has_lost.set()
                    if how == "cut":
                        _end(client, server)
                        return
                    self._late.wait()
            flow.wait()
            with contextlib.suppress(OSError):
                server.sendall(data)
        # A peer that vanishes says no farewell.
        flow.wait()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _replies(self, client: socket.socket, server: socket.socket, lost: list[str], flow: threading.Event) -> None:
        for data in _chunks(server):
            if lost:
                self.has_lost.set()
                if lost[0] == "cut":
                    break
                continue
            if self.delay:
                time.sleep(self.delay)
            flow.wait()
            with contextlib.suppress(OSError):
                client.sendall(data)
        flow.wait()
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _chunks(one: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = one.recv(65_536)
        except OSError:
            return
        if not data:
            return
        yield data


class Answering:
    """A server that answers every command with OK, and those that contain `command` with a line of the test's."""

    def __init__(self, command: bytes, line: bytes) -> None:
        self._command, self._line = command, line
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        for data in _chunks(client):
            for command in data.split(b"\r\n*"):
                with contextlib.suppress(OSError):
                    client.sendall(self._line + b"\r\n" if self._command in command else b"+OK\r\n")


def calls_of(server: servers.Server, command: str) -> int:
    """Count how often a server ran a command since its start (or CONFIG RESETSTAT)."""
    with server.client() as client:
        return int(client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))
