"""How we connect: bounded waits, no hidden resend, one pool per process and URL.

redis-py repeats a timed-out command by itself (ten times from version 8 on), and would so run a script again
whose reply was only late. So every client here has its retries off; those who know what may be sent twice
send it twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import redis
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection

from .cluster import ClusterClient
from .failures import translated as translated
from .urls import Address, parse_url
from .urls import check_url as check_url
from .wire import DirectClient

#: Seconds to wait for a connection, and for the reply to a command.
SOCKET_TIMEOUT = 5
#: Seconds that one blocking call may wait; the socket waits for longer than that.
LONGEST_WAIT = 5
#: Bound on a pool; a thread holds one connection at most, and only for the length of a command.
_POOL_SIZE = 2**16

#: A redis-py client of a server, a sentinel's master or a cluster. Its types can't tell what a reply looks like.
Client: TypeAlias = Any

# redis-py leaves these without types.
_cluster_node: Any = ClusterNode
_sentinel: Any = Sentinel

_clients: dict[tuple[str, float], Client] = {}
_lock = threading.Lock()


def connect(url: str, timeout: float = SOCKET_TIMEOUT) -> Client:
    """Return this process's client for commands, which wait `timeout` seconds for a reply; threads share it."""
    return _shared(url, timeout)


def connect_waiting(url: str) -> Client:
    """Return this process's client for calls that block, for `LONGEST_WAIT` seconds at most."""
    return _shared(url, SOCKET_TIMEOUT + LONGEST_WAIT)


def close_all() -> None:
    """Close every client of this process."""
    with _lock:
        while _clients:
            _clients.popitem()[1].close()


def _shared(url: str, socket_timeout: float) -> Client:
    client = _clients.get((url, socket_timeout))
    if client is None:
        address = parse_url(url)
        with _lock:
            client = _clients.get((url, socket_timeout))
            if client is None:
                client = _clients[url, socket_timeout] = _make(address, socket_timeout)
    return client


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    # The sockets are the parent's too: they are left alone, not closed, since closing would end TLS for both.
    _clients.clear()


os.register_at_fork(after_in_child=_forget)


def _make(address: Address, socket_timeout: float) -> Client:
    timeouts: dict[str, Any] = {
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": min(socket_timeout, SOCKET_TIMEOUT),
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if address.scheme == "unix":
        return _pooled(_Unix, timeouts | address.options)
    options = timeouts | {"socket_keepalive": True} | address.options
    if address.scheme == "redis+cluster":
        return ClusterClient(lambda: _cluster(address, options))
    if address.scheme == "sentinel":
        tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
        login = timeouts | tls | ({"ssl": True} if address.tls else {}) | address.sentinel
        sentinel: Any = _sentinel(address.nodes, sentinel_kwargs=login)
        options = {
            "max_connections": _POOL_SIZE,
            "connection_class": _ManagedTls if address.tls else _Managed,
        } | options
        return sentinel.master_for(address.service, redis_class=DirectClient, **options)
    host, port = address.nodes[0]
    return _pooled(_Tls if address.tls else _Plain, options | {"host": host, "port": port})


def _pooled(kind: Any, options: dict[str, Any]) -> Client:
    options = {"max_connections": _POOL_SIZE} | options
    return DirectClient.from_pool(redis.ConnectionPool(connection_class=kind, **options))


def _cluster(address: Address, options: dict[str, Any]) -> Any:
    options = {"max_connections": _POOL_SIZE, "connection_class": _Tls if address.tls else _Plain} | options
    if redis.VERSION < (6,):
        options["cluster_error_retry_attempts"] = 0
    first, *others = address.nodes
    # Only with a URL does it take our class of connections.
    host = f"[{first[0]}]" if ":" in first[0] else first[0]
    return RedisCluster(
        startup_nodes=[_cluster_node(*node) for node in others], url=f"redis://{host}:{first[1]}", **options
    )


class _Marking:
    """Marks an error that came while connecting: what was to be sent has not been."""

    def connect(self, *args: Any, **kwargs: Any) -> None:
        self._marked(super().connect, *args, **kwargs)  # type: ignore[misc]

    def connect_check_health(self, *args: Any, **kwargs: Any) -> None:
        self._marked(super().connect_check_health, *args, **kwargs)  # type: ignore[misc]

    def _marked(self, call: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        try:
            call(*args, **kwargs)
        except (errors.ConnectionError, errors.TimeoutError) as error:
            error.unsent = True  # type: ignore[union-attr]
            raise


class _Plain(_Marking, Connection): ...


class _Tls(_Marking, SSLConnection): ...


class _Unix(_Marking, UnixDomainSocketConnection): ...


class _Managed(_Marking, SentinelManagedConnection): ...


class _ManagedTls(_Managed, SSLConnection): ...
