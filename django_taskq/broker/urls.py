"""What a Redis URL says. No message here shows the URL, for there may be a password in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from .exceptions import ConfigurationError

SCHEMES = ("redis", "rediss", "unix", "sentinel", "redis+cluster")
_DEFAULT_PORTS = {"redis": 6379, "rediss": 6379, "sentinel": 26379, "redis+cluster": 6379}
_SECRET = re.compile(r"user|pass|key")
_NO_OPTION = "what follows its '?' isn't name=value; in a password, write %3F"
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^\[\]:@/,\s]+))?(?::(?P<port>\d{1,5}))?")


def _boolean(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "0", "false", "no"):
        raise ValueError(text)
    return text.lower() in ("1", "true", "yes")


def _natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(text)
    return int(text)


#: What may stand behind the `?`. The rest (retries, timeouts, protocol, decoding) is ours to set.
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "db": _natural,
    "username": str,
    "password": str,
    "client_name": str,
    "health_check_interval": _natural,
    "max_connections": _natural,
}
_TLS_OPTIONS: dict[str, Callable[[str], Any]] = {
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": str,
    "ssl_check_hostname": _boolean,
}
#: The sentinels' own login.
_SENTINEL_OPTIONS: dict[str, Callable[[str], Any]] = {"sentinel_username": str, "sentinel_password": str}


@dataclass(frozen=True)
class Address:
    """Where Redis is: its nodes (none for a socket), and the keyword arguments of a connection."""

    scheme: str
    nodes: list[tuple[str, int]]
    tls: bool
    options: dict[str, Any] = field(repr=False)
    #: Name of the master that sentinels watch, and how to log in to them.
    service: str = ""
    sentinel: dict[str, Any] = field(default_factory=dict, repr=False)


def check_url(url: object) -> None:
    """Raise `ConfigurationError` when no client can be made for a URL; nothing is connected."""
    parse_url(url)


def mask_url(url: str) -> str:
    """Return a URL that may be shown: without what logs in there."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    pairs = [(name, "***" if _SECRET.search(name) else value) for name, value in parse_qsl(parts.query)]
    query = urlencode(pairs, safe="*/")
    return f"{parts.scheme}://{'***' if login else ''}{at}{hosts}{parts.path}{'?' if query else ''}{query}"


def parse_url(url: object) -> Address:
    """Return what a URL says, or raise `ConfigurationError` that tells what is wrong with it."""
    if not isinstance(url, str):
        raise ConfigurationError(f"The Redis URL must be a string, not {type(url).__name__}.")
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in SCHEMES:
        shown = f", not {scheme!r}" if separator else ""
        raise ConfigurationError(
            f"The Redis URL must start with one of {', '.join(s + '://' for s in SCHEMES)}{shown}."
        )
    try:
        return _parse(scheme, url)
    except _Unreadable as error:
        raise ConfigurationError(f"The Redis URL can't be read: {error}.") from None


class _Unreadable(Exception):
    """Says what is wrong, without showing it."""


def _parse(scheme: str, url: str) -> Address:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _Unreadable("its host isn't one") from None
    if parts.fragment or "#" in url:
        raise _Unreadable("it has no part behind a '#'; in a password, write %23")
    login, _, hosts = parts.netloc.rpartition("@")
    options = _login(login) | _query(scheme, parts.query)
    tls = scheme == "rediss" or bool(options.pop("ssl", False))
    sentinel = {name.removeprefix("sentinel_"): options.pop(name) for name in _SENTINEL_OPTIONS if name in options}
    if scheme == "unix":
        return Address(scheme, [], tls, options | _socket(hosts, parts.path))
    service, database = _path(scheme, parts.path)
    if database is not None:
        options.setdefault("db", database)
    if scheme == "redis+cluster" and options.pop("db", 0):
        raise _Unreadable("a cluster has only database 0")
    return Address(scheme, _nodes(scheme, hosts), tls, options, service, sentinel)


def _login(text: str) -> dict[str, Any]:
    username, _, password = text.partition(":")
    return {name: unquote(value) for name, value in (("username", username), ("password", password)) if value}


def _query(scheme: str, text: str) -> dict[str, Any]:
    known = dict(_OPTIONS)
    if scheme != "unix":
        known |= {"socket_keepalive": _boolean} | (_TLS_OPTIONS if scheme != "redis" else {})
    if scheme in ("sentinel", "redis+cluster"):
        known["ssl"] = _boolean
    if scheme == "sentinel":
        known |= _SENTINEL_OPTIONS
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
    except ValueError:
        raise _Unreadable(_NO_OPTION) from None
    options: dict[str, Any] = {}
    for name, value in pairs:
        if name not in known:
            # Before an @ it may be the end of a password, which isn't shown.
            if "@" in text:
                raise _Unreadable(_NO_OPTION)
            raise _Unreadable(f"it can't set {name!r}; it takes {', '.join(sorted(known))}")
        try:
            options[name] = known[name](value)
        except ValueError:
            raise _Unreadable(f"{name!r} has a wrong value") from None
    return options


def _socket(hosts: str, path: str) -> dict[str, Any]:
    if hosts or not path.strip("/"):
        raise _Unreadable("the path of the socket follows three slashes: unix:///run/redis.sock?db=0")
    return {"path": unquote(path)}


def _nodes(scheme: str, hosts: str) -> list[tuple[str, int]]:
    several = scheme in ("sentinel", "redis+cluster")
    nodes = []
    for text in hosts.split(",") if several else [hosts]:
        match = _HOST.fullmatch(text)
        if match is None or int(match["port"] or 1) > 65535 or (several and not text):
            hint = "in a password, write : / ? # @ as %3A %2F %3F %23 %40"
            raise _Unreadable(f"{'its hosts are' if several else 'its host is'} not host:port ({hint})")
        host = match["v6"] or unquote(match["name"] or "localhost")
        nodes.append((host, int(match["port"] or _DEFAULT_PORTS[scheme])))
    return nodes


def _path(scheme: str, path: str) -> tuple[str, int | None]:
    """Return the service of sentinels, and the database if the path names one."""
    service, database = "", path.strip("/")
    if scheme == "sentinel":
        service, _, database = database.partition("/")
        if not service:
            raise _Unreadable("it names the service that the sentinels watch: sentinel://host:26379/mymaster/0")
    if database and not re.fullmatch(r"[0-9]{1,9}", database):
        raise _Unreadable("its path must be the number of a database (in a password, write / as %2F)")
    return unquote(service), int(database) if database else None
