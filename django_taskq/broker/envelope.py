"""The task string: a head of lines that the scripts read, an empty line, and the envelope, which only clients read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .exceptions import UnknownVersion, UnreadableRecord
from .retry import RetryPolicy

VERSION = 1
DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_RESULT_TTL_MS = 86_400_000
DEFAULT_BACKOFF = RetryPolicy()
#: Longest time in ms that an envelope may name, about three centuries; a longer one is cut to it.
LONGEST_MS = 10**13
#: What every language holds exactly; a larger count or moment is cut to it.
LARGEST = 2**53 - 1

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)


def _made_once() -> Any:
    """Return CPython's own writer, of which `encode` makes one each time: that takes longer than a small document."""
    module: Any = json.encoder
    try:
        return module.c_make_encoder(
            None, _encoder.default, module.encode_basestring, None, ":", ",", False, False, False
        )
    except (AttributeError, TypeError):  # Another Python has none, or wants other arguments.
        return None


_write = _made_once()


def _refuse(literal: str) -> None:
    raise ValueError(f"{literal} stands in it")


#: Reads a document without looking for a byte order mark and options that nobody gave.
_decoder: Any = json.JSONDecoder(parse_constant=_refuse)


def read_json(text: str) -> Any:
    """Decode JSON, without the numbers that are none; raise ValueError or RecursionError."""
    # Most has no space around it, and looking for that takes as long as reading a small document.
    try:
        value, end = _decoder.scan_once(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else _decoder.decode(text)


def dump_json(value: object) -> bytes:
    """Return compact UTF-8 JSON; raise ValueError for NaN and lone surrogates, TypeError for other types."""
    text = "".join(_write(value, 0)) if _write else _encoder.encode(value)
    return text.encode()


class Head(NamedTuple):
    """What the scripts know of a record. `enqueued_at` is in ms on Redis's clock."""

    enqueued_at: int
    priority: int
    queue: str
    key: str | None = None
    key_ttl_ms: int = 0
    record_alias: str | None = None


def head_lines(key: str | None, key_ttl_ms: int, record_alias: str | None) -> str:
    """Return the lines that follow the first, which the `enqueue` script writes."""
    lines = f"key {key_ttl_ms} {key}\n" if key is not None else ""
    return lines + (f"record {record_alias}\n" if record_alias is not None else "")


def parse_task(task: bytes, queue: str = "") -> tuple[Head, bytes]:
    """Return the head and the envelope's bytes; of an unreadable head, the given queue and all bytes."""
    lines, separator, envelope = task.partition(b"\n\n")
    try:
        first, more, others = lines.decode().partition("\n")
        enqueued_at, priority, named_queue = first.split(" ", 2)
        if not separator:
            raise ValueError("no empty line")
        if not more:  # as most are
            return Head(int(enqueued_at), int(priority), named_queue), envelope
        known = dict(line.partition(" ")[::2] for line in others.split("\n"))
        ttl, _, key = known.get("key", "").partition(" ")
        return Head(
            int(enqueued_at), int(priority), named_queue, key or None, int(ttl or 0), known.get("record") or None
        ), envelope
    except ValueError:
        return Head(0, 0, queue), task


# Not frozen: making one would take twice as long, for each task.
@dataclass
class Envelope:
    """What was enqueued: which task, with what, and under which policy. `run_after` is in ms since the epoch."""

    name: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    run_after: int | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: RetryPolicy = DEFAULT_BACKOFF
    timeout_ms: int | None = None
    result_ttl_ms: int = DEFAULT_RESULT_TTL_MS
    #: The alias of the database in which its effects and the mark that it is done are one transaction.
    atomic: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the JSON document, without the fields that are at their default."""
        document: dict[str, Any] = {"v": VERSION, "name": self.name}
        if self.args:
            document["args"] = self.args
        if self.kwargs:
            document["kwargs"] = self.kwargs
        if self.run_after is not None:
            document["run_after"] = self.run_after
        if self.max_attempts != DEFAULT_MAX_ATTEMPTS:
            document["max_attempts"] = self.max_attempts
        if self.backoff != DEFAULT_BACKOFF:
            document["backoff"] = self.backoff.to_dict()
        if self.timeout_ms is not None:
            document["timeout_ms"] = self.timeout_ms
        if self.result_ttl_ms != DEFAULT_RESULT_TTL_MS:
            document["result_ttl_ms"] = self.result_ttl_ms
        if self.atomic is not None:
            document["atomic"] = self.atomic
        if self.meta:
            document["meta"] = self.meta
        return dump_json(document)

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """Return the envelope, or raise `UnreadableRecord` that says what is wrong with it."""
        try:
            document = read_json(data.decode())
        except (ValueError, RecursionError) as error:
            raise UnreadableRecord(f"The envelope is no JSON: {error}") from None
        if not isinstance(document, dict):
            raise UnreadableRecord("The envelope is no JSON object.")
        if (version := document.get("v", VERSION)) != VERSION:
            raise UnknownVersion(f"The envelope has version {version!r}; this release reads {VERSION}.")
        fields: dict[str, Any] = {}
        for name, value in document.items():
            if value is None or (wanted := _TYPES.get(name)) is None:
                continue
            if type(value) is not wanted or (name in _LOWEST and value < _LOWEST[name]):
                raise UnreadableRecord(f"The envelope's {name} is {value!r:.100}.")
            fields[name] = max(min(value, _HIGHEST[name]), -LARGEST) if wanted is int else value
        if not fields.get("name"):
            raise UnreadableRecord("The envelope has no name.")
        try:
            if "backoff" in fields:
                fields["backoff"] = RetryPolicy.parse(fields["backoff"])
        except (TypeError, ValueError) as error:
            raise UnreadableRecord(f"The envelope's backoff can't be read: {error}") from None
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Form:
    """An envelope's JSON with its arguments left out, to be filled in for many calls."""

    opening: bytes
    closing: bytes

    @classmethod
    def of(cls, envelope: Envelope) -> Form:
        """Return the form of an envelope that has no arguments."""
        text = envelope.to_bytes()
        end = len(Envelope(envelope.name).to_bytes()) - 1
        return cls(text[:end], text[end:])

    def filled(self, args: list[Any], kwargs: dict[str, Any]) -> bytes:
        """Return the JSON document, as `Envelope.to_bytes` does."""
        given = b',"args":' + dump_json(args) if args else b""
        if kwargs:
            given += b',"kwargs":' + dump_json(kwargs)
        return self.opening + given + self.closing


_TYPES: dict[str, Any] = {
    "name": str,
    "args": list,
    "kwargs": dict,
    "run_after": int,
    "max_attempts": int,
    "backoff": dict,
    "timeout_ms": int,
    "result_ttl_ms": int,
    "atomic": str,
    "meta": dict,
}
_HIGHEST = {"run_after": LARGEST, "max_attempts": LARGEST, "timeout_ms": LONGEST_MS, "result_ttl_ms": LONGEST_MS}
_LOWEST = {"max_attempts": 1, "timeout_ms": 1, "result_ttl_ms": 0}
