"""What `taskq doctor` finds out about Redis: nothing is written, and what may not be asked is said."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from . import diagnosis, scripts
from .broker import Broker
from .client import Client, translated
from .exceptions import BrokerError, ConfigurationError
from .inspector import Inspector

#: The first version of each kind that can do all that is asked of it, and the major ones that the tests run on.
_FIRST = {"Redis": (6, 2), "Valkey": (7, 2)}
_TESTED = {"Redis": range(6, 9), "Valkey": range(8, 10)}
#: Share of its memory from which on Redis counts as nearly full.
_NEARLY_FULL = 0.9
#: Seconds by which the clocks may differ.
_MOST_SKEW = 2.0
#: Returns what is wrong with a script, without running it.
_COMPILE = "local made, problem = loadstring(ARGV[1]) return problem or ''"

Facts = Mapping[str, Any]


class Level(StrEnum):
    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one thing, and what to do where it isn't as it should be."""

    level: Level
    subject: str
    text: str
    advice: str = ""


def examine(broker: Broker) -> Iterator[Finding]:
    """Yield what there is to say about the server; raise what the broker raises when it can't be used at all."""
    broker.ping()
    server = _node(broker.client, broker.keys.queues)
    info: Facts = _allowed(server, lambda: server.info()) or {}
    yield _version(info)
    yield from _role(info)
    yield _eviction(diagnosis.eviction_policy(server))
    yield from _memory(info)
    yield _persistence(info, _setting(server, "appendonly"), _setting(server, "save"))
    yield _scripts(server, broker.keys.queues)
    yield _clock(broker)


def _node(client: Client, key: str) -> Client:
    """Return a client of the one server that holds a key."""
    with translated(client):
        if hasattr(client, "get_node_from_key"):
            return client.get_redis_connection(client.get_node_from_key(key))
        return client


def _allowed(client: Client, ask: Callable[[], Any]) -> Any:
    """Return an answer, or None where it is refused."""
    try:
        with translated(client):
            return ask()
    except (BrokerError, ConfigurationError):
        return None


def _setting(client: Client, name: str) -> str | None:
    found: Facts | None = _allowed(client, lambda: client.config_get(name))
    return None if not found or name not in found else str(found[name])


def _version(info: Facts) -> Finding:
    kind = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get(f"{kind.lower()}_version", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if len(numbers) < 2:
        return Finding(
            Level.WARN,
            "version",
            "can't be read: Redis refuses INFO",
            f"It takes {_supported()}; +info lets it be seen.",
        )
    text = f"{kind} {version}"
    if numbers < _FIRST[kind]:
        return Finding(Level.FAIL, "version", f"{text} is too old", f"Use {_supported()}.")
    if numbers[0] not in _TESTED[kind]:
        return Finding(Level.WARN, "version", f"{text} isn't one that is tested", f"Tested are {_supported()}.")
    return Finding(Level.OK, "version", text)


def _supported() -> str:
    return "Redis 6.2 to 8, or Valkey 8 and 9"


def _role(info: Facts) -> Iterator[Finding]:
    if info.get("role") == "slave":
        advice = "Let the URL name the primary, or the sentinels that know it (sentinel://)."
        yield Finding(Level.FAIL, "role", "this server is a replica, so nothing can be written", advice)


def _eviction(policy: str | None) -> Finding:
    subject = "eviction"
    if policy is None:
        advice = "See to it that maxmemory-policy is noeviction; +info lets it be seen."
        return Finding(Level.WARN, subject, "can't be read: Redis refuses INFO and CONFIG", advice)
    text = f"maxmemory-policy is {policy!r}"
    if policy == "noeviction":
        return Finding(Level.OK, subject, text)
    lost = "results, idempotency keys and what workers recover by" if policy.startswith("volatile") else "queued tasks"
    advice = "Set it to noeviction: CONFIG SET maxmemory-policy noeviction, and in redis.conf or at your provider."
    return Finding(Level.WARN, subject, f"{text}: when memory is full, Redis throws {lost} away", advice)


def _memory(info: Facts) -> Iterator[Finding]:
    used, most = info.get("used_memory"), info.get("maxmemory")
    if used is None or most is None:
        return  # what may not be asked was said above
    text = f"{_megabytes(used)} used, {f'of {_megabytes(most)}' if most else 'no limit is set'}"
    if most and used > most * _NEARLY_FULL:
        advice = "Raise maxmemory, or let more workers serve. When it is full, enqueuing is refused."
        yield Finding(Level.WARN, "memory", text, advice)
    else:
        yield Finding(Level.OK, "memory", text)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB"


def _persistence(info: Facts, appendonly: str | None, save: str | None) -> Finding:
    subject, advice = "persistence", "Set appendonly yes, in redis.conf or at your provider."
    appends = (
        bool(info["aof_enabled"]) if "aof_enabled" in info else None if appendonly is None else appendonly == "yes"
    )
    if info.get("aof_last_write_status", "ok") != "ok":
        return Finding(Level.FAIL, subject, "the append-only file can't be written", "Look into the log of Redis.")
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        return Finding(Level.WARN, subject, "the last snapshot couldn't be written", "Look into the log of Redis.")
    if appends:
        return Finding(Level.OK, subject, "the append-only file is on")
    if appends is None:
        advice = "See to it that appendonly is yes; +info lets it be seen."
        return Finding(Level.WARN, subject, "can't be read: Redis refuses INFO and CONFIG", advice)
    if save == "":
        return Finding(Level.WARN, subject, "is off: when Redis restarts, every task is lost", advice)
    kept = "there are only snapshots" if save else "the append-only file is off"
    return Finding(Level.WARN, subject, f"{kept}: when Redis restarts, what came last is lost", advice)


def _scripts(server: Client, key: str) -> Finding:
    names = scripts.names()
    for name in names:
        try:
            with translated(server):
                problem = server.eval(_COMPILE, 1, key, scripts.load(name).text)
        except (BrokerError, ConfigurationError) as error:
            return Finding(Level.FAIL, "scripts", f"can't be run: {error}", "Allow +eval, +evalsha and the keys.")
        if problem:
            return Finding(
                Level.FAIL, "scripts", f"{name} can't be loaded: {problem.decode()}", "Install a whole release."
            )
    return Finding(Level.OK, "scripts", f"all {len(names)} can be loaded")


def _clock(broker: Broker) -> Finding:
    before = time.time()
    try:
        now = Inspector(broker).summaries([])[0] / 1000
    except (BrokerError, ConfigurationError) as error:
        return Finding(Level.FAIL, "clock", f"can't be read: {error}", "Allow +time and the keys of the namespace.")
    after = time.time()
    # It was read at some moment between the two.
    skew = now - after if now > after else min(now - before, 0)
    text = f"this machine and Redis agree within {abs(skew) + after - before:.1f} s"
    if abs(skew) <= _MOST_SKEW:
        return Finding(Level.OK, "clock", text)
    text = f"Redis's is {abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    return Finding(
        Level.WARN, "clock", text, "Let NTP set both: a run_after that is a time goes by this machine's clock."
    )
