"""Short views of records, for lists of many: where a text is long, only its start was read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .envelope import DEFAULT_MAX_ATTEMPTS, Head, parse_task
from .records import AttemptError

_decoder = json.JSONDecoder()


@dataclass(frozen=True)
class Summary:
    """What a list shows of a record; texts are as far as they were read."""

    id: str
    task: bytes
    task_bytes: int
    log: bytes
    log_bytes: int
    attempts: int
    token: int
    worker: str
    last_attempted_at: int | None
    cancel_requested: bool

    @cached_property
    def head(self) -> Head:
        return parse_task(self.task)[0]

    @cached_property
    def document(self) -> dict[str, Any]:
        """The members of the envelope that could be read; none, when it can't be."""
        return read_object(parse_task(self.task)[1], whole=self.task_bytes <= len(self.task))

    @property
    def name(self) -> str | None:
        """The task's name; None where the envelope is missing or can't be read."""
        name = self.document.get("name")
        return name if isinstance(name, str) and name else None

    @property
    def max_attempts(self) -> int | None:
        """How often it is tried; None when that was not read."""
        if self.task_bytes > len(self.task) or self.name is None:
            return None
        attempts = self.document.get("max_attempts", DEFAULT_MAX_ATTEMPTS)
        return attempts if isinstance(attempts, int) else None

    @cached_property
    def error(self) -> AttemptError | None:
        """Why the last attempt failed; None when it didn't, or there was none."""
        if not self.log:
            return None
        *_, text = self.log.split(b" ", 5)
        found = read_object(text, whole=self.log_bytes <= len(self.log))
        if "error" not in found:
            return None if "result" in found else AttemptError("", "The log line can't be read.", "", "unreadable")
        return AttemptError(*(str(found.get(name) or "") for name in ("error", "message", "traceback", "reason")))


def summary(record_id: str, parts: list[Any]) -> Summary:
    """Return the summary that the script `summary` answered with."""
    task, task_bytes, log, log_bytes, attempts, token, worker, last_attempted_at, cancel_requested = parts
    return Summary(
        id=record_id,
        task=task,
        task_bytes=int(task_bytes),
        log=log,
        log_bytes=int(log_bytes),
        attempts=_number(attempts) or 0,
        token=_number(token) or 0,
        worker=worker.decode(errors="replace"),
        last_attempted_at=_number(last_attempted_at),
        cancel_requested=bool(cancel_requested),
    )


def read_object(data: bytes, whole: bool) -> dict[str, Any]:
    """Return the members of a JSON object; of one that was cut, those before the cut, a cut text with its start."""
    text = data.decode(errors="replace")
    try:
        document = json.loads(text) if whole else _members(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _members(text: str) -> dict[str, Any]:
    members: dict[str, Any] = {}
    position = _skip(text, 0, "{")
    while position < len(text):
        try:
            name, position = _decoder.raw_decode(text, position)
            position = _skip(text, position, ":")
        except ValueError:
            break
        try:
            members[name], position = _decoder.raw_decode(text, position)
            position = _skip(text, position, ",")
        except ValueError:
            members[name] = _cut_text(text[position:])
            break
    return members


def _skip(text: str, position: int, mark: str) -> int:
    """Return where the next token begins, behind a mark and the blanks around it."""
    rest = text[position:].lstrip()
    if not rest.startswith(mark):
        raise ValueError(f"no {mark}")
    return len(text) - len(rest[1:].lstrip())


def _cut_text(rest: str) -> Any:
    """Return the start of a text whose end was cut off; None for any other value."""
    if rest[:1] != '"':
        return None
    for cut in range(6):  # an escape such as \u00e9 may have been cut in two
        try:
            return json.loads(rest[: len(rest) - cut] + '"')
        except ValueError:
            continue
    return None


def _number(value: bytes) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None
