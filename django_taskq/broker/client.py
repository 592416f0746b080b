"""How we connect: bounded waits, no hidden resend, one pool per process and URL.

redis-py repeats a timed-out command by itself (ten times from version 8 on), and would so run a script again
whose reply was only late. So every client here has its retries off; those who know what may be sent twice
send it twice.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import redis
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel

from .exceptions import BrokerError, BrokerUnavailable, ConfigurationError, OutOfMemory, TaskqError

#: Seconds to wait for a connection, and for the reply to a command.
SOCKET_TIMEOUT = 5
#: Seconds that one blocking call may wait; the socket waits for longer than that.
LONGEST_WAIT = 5
#: Bound on a pool; a thread holds one connection at most, and only for the length of a command.
_POOL_SIZE = 2**16

_SCHEMES = ("redis", "rediss", "unix", "sentinel", "redis+cluster")
#: Settings that replies, retries or waits rely on.
_OURS = {"decode_responses", "encoding", "protocol", "retry", "retry_on_timeout", "retry_on_error", "socket_timeout"}
_UNAVAILABLE = {"LOADING", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS"}
_REFUSED = {"NOAUTH", "WRONGPASS", "NOPERM"}
#: The code of an error, which Redis 6.2 hides behind its own text when a script met it.
_CODE = re.compile(r"(?:^|: ?-)([A-Z]+) ")

#: A redis-py client of a server, a sentinel's master or a cluster; no type can tell what its options make of a reply.
Client: TypeAlias = Any

# redis-py leaves these without types.
_parse: Any = parse_url
_cluster_node: Any = ClusterNode
_sentinel: Any = Sentinel

_clients: dict[tuple[str, float], Client] = {}
_lock = threading.Lock()


def connect(url: str) -> Client:
    """Return this process's client for commands; threads share it."""
    return _shared(url, SOCKET_TIMEOUT)


def connect_waiting(url: str) -> Client:
    """Return this process's client for calls that block, for `LONGEST_WAIT` seconds at most."""
    return _shared(url, SOCKET_TIMEOUT + LONGEST_WAIT)


def close_all() -> None:
    """Close every client of this process."""
    with _lock:
        while _clients:
            _clients.popitem()[1].close()


def check_url(url: object) -> None:
    """Raise `ConfigurationError` when no client can be made for a URL; nothing is connected."""
    if not isinstance(url, str):
        raise ConfigurationError(f"The Redis URL must be a string, not {url!r}.")
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ConfigurationError(
            f"The Redis URL must start with one of {', '.join(s + '://' for s in _SCHEMES)}, not {parts.scheme!r}."
        )
    try:
        options = _options(url)
        if parts.scheme in ("sentinel", "redis+cluster"):
            _nodes(url)
        if parts.scheme == "sentinel" and not _service(url):
            raise ValueError("a sentinel URL names its service: sentinel://host:26379/mymaster/0")
    except ValueError as error:
        raise ConfigurationError(f"The Redis URL can't be read: {error}.") from None
    if refused := sorted(_OURS & options.keys()):
        raise ConfigurationError(f"The Redis URL can't set {', '.join(refused)}.")


def _shared(url: str, socket_timeout: float) -> Client:
    client = _clients.get((url, socket_timeout))
    if client is None:
        check_url(url)
        with _lock:
            client = _clients.get((url, socket_timeout))
            if client is None:
                client = _clients[url, socket_timeout] = _make(url, socket_timeout)
    return client


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    # The sockets are the parent's too: they are left alone, not closed, since closing would end TLS for both.
    _clients.clear()


os.register_at_fork(after_in_child=_forget)


def _options(url: str) -> dict[str, Any]:
    """Return what a URL says as keyword arguments."""
    parts = urlsplit(url)
    if parts.scheme not in ("sentinel", "redis+cluster"):
        return dict(_parse(url))
    options = dict(_parse(parts._replace(scheme="redis", netloc="localhost", path="").geturl()))
    options.pop("host", None)
    if parts.username:
        options["username"] = unquote(parts.username)
    if parts.password:
        options["password"] = unquote(parts.password)
    if parts.scheme == "sentinel":
        database = parts.path.strip("/").partition("/")[2]
        options["db"] = int(database or 0)
    return options


def _nodes(url: str) -> list[tuple[str, int]]:
    """Return the host:port pairs of a URL with several."""
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    default = 26379 if url.startswith("sentinel") else 6379
    pairs = [host.rpartition(":") if ":" in host else (host, "", default) for host in hosts.split(",")]
    return [(host, int(port)) for host, _, port in pairs]


def _service(url: str) -> str:
    return urlsplit(url).path.strip("/").partition("/")[0]


def _make(url: str, socket_timeout: float) -> Client:
    timeouts: dict[str, Any] = {
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    options = {**timeouts, **_options(url)}
    scheme = urlsplit(url).scheme
    if scheme == "redis+cluster":
        nodes = [_cluster_node(host, port) for host, port in _nodes(url)]
        return RedisCluster(startup_nodes=nodes, **options)
    if scheme == "sentinel":
        sentinel: Any = _sentinel(_nodes(url), sentinel_kwargs=timeouts)
        return sentinel.master_for(_service(url), max_connections=_POOL_SIZE, **options)
    if scheme == "unix":
        options.pop("socket_keepalive")
    kind = {"redis": _Plain, "rediss": _Tls, "unix": _Unix}[scheme]
    options.update(connection_class=kind, max_connections=_POOL_SIZE)
    return redis.Redis.from_pool(redis.ConnectionPool(**options))


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


@contextmanager
def translated(client: Client) -> Iterator[None]:
    """Turn what redis-py raises into the errors of `exceptions`."""
    try:
        yield
    except errors.RedisError as error:
        if isinstance(error, errors.ReadOnlyError) or _code(error) == "READONLY":
            _drop_idle_connections(client)
        raise _translation(error) from error


def _drop_idle_connections(client: Client) -> None:
    """Leave a node that was demoted: a new connection finds the one that is the master now."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        pool.disconnect(inuse_connections=False)


def _code(error: errors.RedisError) -> str:
    match = _CODE.search(str(error))
    return match[1] if match else ""


def _translation(error: errors.RedisError) -> TaskqError:
    text, code = str(error), _code(error)
    refused = errors.AuthenticationError | errors.AuthorizationError | errors.NoPermissionError
    if isinstance(error, refused) or code in _REFUSED:
        return ConfigurationError(f"Redis refuses us: {text}")
    if isinstance(error, errors.OutOfMemoryError) or code == "OOM":
        return OutOfMemory(f"Redis is at its maxmemory: {text}")
    not_now = errors.BusyLoadingError | errors.ReadOnlyError | errors.MasterDownError | errors.ClusterDownError
    if isinstance(error, not_now | errors.MaxConnectionsError) or code in _UNAVAILABLE:
        return BrokerUnavailable(text, maybe_executed=False)
    if isinstance(error, errors.ConnectionError | errors.TimeoutError | errors.RedisClusterException):
        return BrokerUnavailable(text, maybe_executed=not getattr(error, "unsent", False))
    return BrokerError(text)
