"""The Lua scripts of the protocol: found, composed, and run without ever being sent twice behind our back."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from .client import Client, translated
from .exceptions import RequestError, TaskqError
from .settlements import Argument

FOLDER = Path(__file__).parent.parent / "lua"
_INCLUDE = re.compile(r"^-- @include (\w+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A composed script and the name that Redis gives it."""

    name: str
    text: str
    sha: str


class Call(NamedTuple):
    """A script to be run with these ARGV."""

    script: str
    arguments: Sequence[Argument]


@cache
def load(name: str) -> Script:
    """Return a script with each piece that it includes, once, above the text that needs it."""
    included: set[str] = set()

    def compose(piece: str) -> str:
        included.add(piece)
        text = (FOLDER / f"{piece}.lua").read_text()
        return _INCLUDE.sub(lambda match: "" if match[1] in included else compose(match[1]), text)

    text = compose(name)
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def names() -> list[str]:
    """Return the name of every script, without the shared pieces."""
    return sorted(path.stem for path in FOLDER.glob("[!_]*.lua"))


def run(client: Client, key: str, calls: Sequence[Call]) -> list[Any]:
    """Run scripts in one round trip and return their replies; raise the first error.

    A script that the server doesn't know (a restart, a failover, SCRIPT FLUSH) has not run, so that one alone
    is sent again with its text.
    """
    with translated(client):
        replies = _send(client, key, calls, "EVALSHA")
        for reply in replies:
            if isinstance(reply, Exception):
                return _with_texts(client, key, calls, replies)
        return replies


def _with_texts(client: Client, key: str, calls: Sequence[Call], replies: list[Any]) -> list[Any]:
    """Return replies with those of scripts that weren't known, sent again; raise the first error."""
    unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    if unknown:
        again = _send(client, key, [calls[index] for index in unknown], "EVAL")
        for index, reply in zip(unknown, again, strict=True):
            replies[index] = reply
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def outcome(client: Client, key: str, call: Call) -> Any:
    """Run a script; return its reply, or the error."""
    try:
        return run(client, key, [call])[0]
    except TaskqError as error:
        return error


def stream(client: Client, key: str, calls: Iterable[Call]) -> Iterator[Any]:
    """Run scripts in their order and yield the reply or error of each, with some more on their way.

    A connection that fails is the last that is heard.
    """
    if not hasattr(type(client), "stream"):  # of a cluster's client itself, that would connect
        yield from (outcome(client, key, call) for call in calls)
        return
    sent: deque[Call] = deque()

    def commands() -> Iterator[tuple[Any, ...]]:
        for call in calls:
            sent.append(call)
            yield _command(key, call, "EVALSHA")

    try:
        with translated(client):
            for reply in client.stream(commands()):
                call = sent.popleft()
                yield outcome(client, key, call) if isinstance(reply, NoScriptError) else _translated(client, reply)
    except RequestError as error:
        # Nothing will be heard of what was sent after it.
        error.maybe_executed = error.maybe_executed or len(sent) > 1
        yield error


def _translated(client: Client, reply: Any) -> Any:
    if not isinstance(reply, Exception):
        return reply
    try:
        with translated(client):
            raise reply
    except TaskqError as error:
        return error


def _command(key: str, call: Call, command: str) -> tuple[Any, ...]:
    script = load(call.script)
    return (command, script.sha if command == "EVALSHA" else script.text, 1, key, *call.arguments)


def _send(client: Client, key: str, calls: Sequence[Call], command: str) -> list[Any]:
    commands = [_command(key, call, command) for call in calls]
    if hasattr(client, "send"):
        return list(client.send(key, commands))
    if len(commands) == 1:
        try:
            return [client.execute_command(*commands[0])]
        except NoScriptError as error:
            return [error]
    with client.pipeline(transaction=False) as pipeline:
        for arguments in commands:
            pipeline.execute_command(*arguments)
        return list(pipeline.execute(raise_on_error=False))
