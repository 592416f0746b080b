"""One thing that `manage.py taskq` does."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser, OutputWrapper

from ...backend import RedisBackend
from ...compat import task_backends
from ...conf import MAX_SECONDS

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"(\d+(?:\.\d+)?)([{''.join(_UNITS)}]?)")


class Action:
    """A sub-command, for one backend."""

    help: ClassVar[str] = ""

    def __init__(self, backend: RedisBackend, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        self.backend = backend
        self.stdout = stdout
        self.options = options

    @classmethod
    def add_arguments(cls, parser: CommandParser) -> None:
        """Add what only this one takes."""

    def run(self) -> None:
        """Do it, or raise CommandError."""
        raise NotImplementedError

    def say(self, text: str, **facts: Any) -> None:
        """Print a sentence, or with `--json` the facts that it tells."""
        self.stdout.write(json.dumps(facts) if self.options["json"] else text)


def find_backend(alias: str) -> RedisBackend:
    """Return a backend with its options read, or raise CommandError."""
    try:
        backend = task_backends[alias]
        if not isinstance(backend, RedisBackend):
            raise ImproperlyConfigured(f"The backend {alias!r} is no RedisBackend.")
        backend.conf  # noqa: B018  # reads the options
    except ImproperlyConfigured as error:
        raise CommandError(str(error), returncode=2) from error
    return backend


def duration(text: str) -> float:
    """Parse a time, as 90, 45m, 12h, 30d or 2w, into seconds."""
    found = _DURATION.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else -1
    if not 0 <= seconds <= MAX_SECONDS:
        raise ArgumentTypeError(f"{text!r} is no time such as 45m, 12h, 30d or 2w")
    return seconds


def count(text: str) -> int:
    """Parse a whole number from 1 to 10,000."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1 to 10,000")
    return int(text)
