"""Run the sequences of the golden vectors; docs/reference/protocol.md says what their steps mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import redis

from django_taskq.broker.exceptions import BrokerError

#: Milliseconds by which `$now` may differ from the server's clock, and by which less may be left than it is about.
NOW_TOLERANCE, ABOUT_TOLERANCE = 60_000, 20_000
_VARIABLE = re.compile(r"\$([a-z]+)([+-]\d+)?")


class Match:
    """Compares what was expected with what there is; a variable is bound where it is first met."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._bound: dict[str, int] = {}

    def filled(self, text: str) -> str:
        """Return a text with the values of its variables."""
        return _VARIABLE.sub(lambda found: str(self._value(found[1]) + int(found[2] or 0)), text)

    def check(self, expected: Any, actual: Any, where: str) -> None:
        """Raise AssertionError where something is otherwise than expected."""
        if isinstance(expected, list):
            assert isinstance(actual, list), f"{where}: {actual!r} is no list"
            assert len(actual) == len(expected), f"{where}: {actual!r} has not {len(expected)} elements"
            for index, pair in enumerate(zip(expected, actual, strict=True)):
                self.check(*pair, f"{where}[{index}]")
        elif not isinstance(expected, dict):
            self._check_text(str(expected), shown(actual), where)
        elif "about" in expected:
            assert expected["about"] - ABOUT_TOLERANCE <= int(actual) <= expected["about"], f"{where}: {actual}"
        elif "fields" in expected:
            self.check_fields(expected["fields"], dict(zip(actual[::2], actual[1::2], strict=True)), where)
        elif "error" in expected:
            assert expected["error"] in str(actual), f"{where}: {actual!r}"
        else:
            assert expected == {"any": True}, f"{where}: {expected} means nothing"

    def check_fields(self, expected: Mapping[str, str], actual: Mapping[Any, Any], where: str) -> None:
        """Compare a hash, or the members and scores of a sorted set."""
        found = {shown(name): value for name, value in actual.items()}
        assert set(found) == set(expected), f"{where} has {sorted(found)}, not {sorted(expected)}"
        for name, value in expected.items():
            self.check(value, found[name], f"{where}, {name}")

    def _check_text(self, expected: str, actual: str, where: str) -> None:
        variables = list(_VARIABLE.finditer(expected))
        pattern = r"(-?\d+)".join(re.escape(literal) for literal in _literals(expected, variables))
        found = re.fullmatch(pattern, actual, re.DOTALL)
        assert found, f"{where}: {actual!r} is not {expected!r}"
        for variable, number in zip(variables, found.groups(), strict=True):
            name, value = variable[1], int(number) - int(variable[2] or 0)
            if name == "now":
                assert abs(value - self._now()) < NOW_TOLERANCE, f"{where}: {actual!r} is not {expected!r} by the clock"
            else:
                bound = self._bound.setdefault(name, value)
                assert value == bound, f"{where}: {actual!r} is not {expected!r}, for ${name} is {bound}"

    def _value(self, name: str) -> int:
        return self._now() if name == "now" else self._bound[name]

    def _now(self) -> int:
        seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000


def _literals(text: str, variables: Sequence[re.Match[str]]) -> Iterator[str]:
    """Yield what stands between the variables."""
    end = 0
    for variable in variables:
        yield text[end : variable.start()]
        end = variable.end()
    yield text[end:]


def shown(value: Any) -> str:
    """Return a reply or a stored value as text; a score without its exponent."""
    if isinstance(value, bytes):
        return value.decode()
    return format(value, ".0f") if isinstance(value, float) else str(value)


class Expected:
    """What a namespace holds, by the steps so far: each names what it changes."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.ttls: dict[str, int] = {}

    def change(self, step: Mapping[str, Any]) -> None:
        """Take over the changes of a step; null takes away, and a key that holds nothing isn't there."""
        for key, value in step.get("state", {}).items():
            if isinstance(value, dict):
                value = {**self.keys.get(key, {}), **value}
                value = {name: each for name, each in value.items() if each is not None}
            self.keys[key] = value
        self.keys = {key: value for key, value in self.keys.items() if value}
        ttls = {**self.ttls, **step.get("ttl", {})}
        self.ttls = {key: ttl for key, ttl in ttls.items() if ttl is not None}


def run(steps: Sequence[Mapping[str, Any]], client: redis.Redis, namespace: str, call: Any) -> None:
    """Run the steps of one sequence in an empty namespace; `call` runs a script and returns its reply."""
    match, expected = Match(client), Expected()
    for number, step in enumerate(steps, 1):
        where = f"step {number}, {step.get('script', 'redis')}"
        if "redis" in step:
            client.execute_command(*(match.filled(part).replace("{ns}", f"{{{namespace}}}") for part in step["redis"]))
        else:
            reply = _reply(call, step["script"], [match.filled(part) for part in step["argv"]])
            match.check(step["reply"], reply, f"{where}: reply")
        expected.change(step)
        _check_state(expected, match, client, namespace, where)


def _reply(call: Any, script: str, argv: list[str]) -> Any:
    """Run a script; of an error, return what it says."""
    try:
        return call(script, argv)
    except BrokerError as error:
        return error


def _check_state(expected: Expected, match: Match, client: redis.Redis, namespace: str, where: str) -> None:
    prefix = f"{{{namespace}}}:"
    keys = {key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*", count=1000)}
    assert keys == set(expected.keys), f"{where}: there are {sorted(keys)}, not {sorted(expected.keys)}"
    for key in sorted(keys):
        held = _held(client, prefix + key)
        at = f"{where}: {key}"
        if isinstance(held, dict):
            match.check_fields(expected.keys[key], held, at)
        else:
            match.check(expected.keys[key], held, at)
        left = client.pttl(prefix + key)
        match.check({"about": expected.ttls[key]} if key in expected.ttls else -1, left, f"{at}: TTL")


def _held(client: redis.Redis, key: str) -> Any:
    """Return what a key holds: a hash and a sorted set as a dict, a set as a sorted list."""
    match client.type(key):
        case b"string":
            return client.get(key)
        case b"hash":
            return client.hgetall(key)
        case b"zset":
            return dict(client.zrange(key, 0, -1, withscores=True))
        case b"list":
            return client.lrange(key, 0, -1)
        case kind:
            assert kind == b"set"
            return sorted(client.smembers(key))
