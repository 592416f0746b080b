"""Check that no key leaked: invariant 6 of the protocol, after every test that touches Redis.

Undelivered work (waiting, leased, dead) has no TTL; whatever has ended, and presence, has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import redis

SETS = ("ready", "scheduled", "leased", "dead")
PERMANENT = re.compile(r"\{[^}]+\}:(queues|workers|repaired|queue:[^:]+:(wake|config))")
KEY = re.compile(r"(?P<prefix>\{[^}]+\}:)(?P<kind>[a-z]+)(:(?P<rest>.*))?", re.DOTALL)

Ttls = dict[str, int]


def _read(client: redis.Redis) -> Ttls:
    keys = sorted(client.scan_iter(count=1000))
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.pttl(key)
        return {key.decode(errors="replace"): ttl for key, ttl in zip(keys, pipe.execute(), strict=True) if ttl != -2}


def _placed(client: redis.Redis, ttls: Ttls) -> dict[str, str]:
    """Map `<prefix>task:<id>` of every undelivered record to the set that it is in."""
    places: dict[str, str] = {}
    for key in ttls:
        name = key.rsplit(":", 1)[-1]
        if ":queue:" in key and name in SETS:
            prefix = key.split(":queue:", 1)[0]
            for member in client.zrange(key, 0, -1):
                places[f"{prefix}:task:{member.decode(errors='replace')}"] = name
    return places


def _undelivered(client: redis.Redis, key: str, match: re.Match[str], places: dict[str, str]) -> bool:
    kind, rest = match["kind"], match["rest"] or ""
    if kind == "queue":
        return rest.rsplit(":", 1)[-1] in SETS
    if kind in ("task", "run", "log"):
        return f"{match['prefix']}task:{rest}" in places
    if kind == "idem":
        named = (client.get(key) or b"").decode(errors="replace")
        return places.get(f"{match['prefix']}task:{named}") in ("ready", "scheduled", "leased")
    return False


def _problems(client: redis.Redis) -> Iterator[str]:
    ttls = _read(client)
    places = _placed(client, ttls)
    for key, ttl in ttls.items():
        match = KEY.fullmatch(key)
        if match is None:
            yield f"{key}: not a key of the protocol"
        elif PERMANENT.fullmatch(key):
            if ttl != -1:
                yield f"{key}: permanent, but it has a TTL of {ttl} ms"
        elif _undelivered(client, key, match, places):
            if ttl != -1:
                yield f"{key}: undelivered work, but it has a TTL of {ttl} ms"
        elif ttl == -1:
            yield f"{key}: ended or not needed, but it has no TTL"
    yield from (f"{key}: in the set {name}, but it has no record" for key, name in places.items() if key not in ttls)


def key_leaks(client: redis.Redis) -> list[str]:
    """List every key whose TTL is wrong; it is asked twice, as a key may expire or move between two reads."""
    found = list(_problems(client))
    return [problem for problem in _problems(client) if problem.split(" TTL")[0] in {p.split(" TTL")[0] for p in found}]
