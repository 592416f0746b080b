"""A connection that loses, delays and repeats, and shows each script that runs to the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import NoScriptError, TimeoutError

from django_taskq.broker import scripts

from .shim import Clock
from .view import OBSERVE, View

#: Milliseconds after which a request that is still on its way is taken for lost.
LATEST = 60_000

#: Script, ARGV, reply or error, and what Redis held before and after.
Listener = Callable[[str, list[str], Any, View, View], None]


class Violation(AssertionError):
    """A promise of the protocol was broken."""

    def __init__(self, promise: str, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise = promise


@dataclass
class Late:
    """A request on its way, sent at a moment of the monotonic clock."""

    sent_at: int
    command: tuple[Any, ...]


class Wire(redis.Redis):
    """The client of every actor. `fate` is that of the next request, which uses it up.

    fine        executed and answered
    lost        never executed
    unanswered  executed
    late        executed at some later time, when nobody waits for its answer
    twice       executed and answered, and executed again later
    half        of several scripts in one pipeline only the first is executed
    """

    def __init__(self, clock: Clock, **options: Any) -> None:
        super().__init__(retry=None, **options)
        self.clock = clock
        self.fate = "fine"
        self.late: list[Late] = []
        self.listener: Listener | None = None
        self.names: dict[str, str] = {}
        for name in scripts.names():
            script = scripts.load(name)
            self.names[script.sha] = self.names[script.text] = name
        #: The server knows all scripts.
        self.loaded = False

    def prepare(self) -> None:
        """Let a server that has lost its scripts know that of the checks, and no other."""
        self._observe = super().execute_command("SCRIPT LOAD", OBSERVE)
        self.loaded = False

    def load_scripts(self) -> None:
        """Let the server know every script, as each run must begin alike."""
        if not self.loaded:
            self.prepare()
            for name in scripts.names():
                super().execute_command("SCRIPT LOAD", scripts.load(name).text)
            self.loaded = True

    def look(self) -> View:
        """Read what Redis holds, outside every script of the protocol."""
        self.view = View.parse(super().execute_command("EVALSHA", self._observe, 0))
        return self.view

    def execute_command(self, *args: Any, **options: Any) -> Any:
        fate, self.fate = self.fate, "fine"
        return self._one(args, fate, options)

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        return Pipeline(self)

    def _one(self, command: Sequence[Any], fate: str, options: dict[str, Any] | None = None) -> Any:
        late = fate in ("late", "twice") and command[0] in ("EVALSHA", "EVAL")
        if late:
            self.late.append(Late(self.clock.now, tuple(command)))
        if fate == "lost" or (fate == "late" and late):
            raise TimeoutError("lost")
        reply = self.run(command, options or {})
        if fate == "unanswered" and not isinstance(reply, NoScriptError):
            raise TimeoutError("unanswered")
        if isinstance(reply, Exception):
            self.fate = fate  # for the same request with the script's text
            raise reply
        return reply

    def run(self, command: Sequence[Any], options: dict[str, Any]) -> Any:
        """Execute on the server, and let the model judge what changed; an error is returned."""
        if command[0] not in ("EVALSHA", "EVAL"):
            reply = super().execute_command(*command, **options)
            self.look()
            return reply
        with super().pipeline(transaction=False) as pipeline:
            pipeline.execute_command(*command)
            pipeline.execute_command("EVALSHA", self._observe, 0)
            reply, text = pipeline.execute(raise_on_error=False)
        if isinstance(reply, NoScriptError):
            return reply
        before, self.view = self.view, View.parse(text)
        arguments = [part.decode() if isinstance(part, bytes) else str(part) for part in command[4:]]
        if self.listener is not None:
            self.listener(self.names[command[1]], arguments, texts(reply), before, self.view)
        return reply

    def deliver(self, index: int) -> str:
        """Let one of the late requests arrive; nobody waits for its answer."""
        request = self.late.pop(index)
        if request.sent_at + LATEST >= self.clock.now:
            self.run(request.command, {})
        return self.names[request.command[1]]


class Pipeline:
    """As much of redis-py's pipeline as the broker uses; its requests share one fate."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.commands: list[tuple[Any, ...]] = []

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def execute_command(self, *args: Any) -> None:
        self.commands.append(args)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        fate, self.wire.fate = self.wire.fate, "fine"
        if fate == "half":
            self.wire.run(self.commands[0], {})
            raise TimeoutError("half")
        replies: list[Any] = []
        failure: TimeoutError | None = None
        for command in self.commands:
            try:
                replies.append(self.wire._one(command, fate))
            except TimeoutError as error:
                failure = error
            except NoScriptError as error:
                replies.append(error)
        if failure is not None:
            raise failure
        return replies


def texts(reply: Any) -> Any:
    """Return a reply with bytes decoded."""
    if isinstance(reply, list):
        return [texts(part) for part in reply]
    return reply.decode() if isinstance(reply, bytes) else reply
