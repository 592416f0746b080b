"""The options of a backend: one frozen dataclass made from `TASKS[alias]["OPTIONS"]`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from .broker.client import check_url
from .broker.exceptions import ConfigurationError, InvalidName
from .broker.keys import check_namespace, check_record_alias
from .broker.retry import RetryPolicy, shown

#: Seconds. A shorter lease ends while its renewal, sent every third of it, is on its way.
MIN_LEASE = 0.25
#: Seconds. The scripts take a lease that ends later than this from now for lapsed.
MAX_LEASE = 24 * 60 * 60
#: Seconds, about three centuries: a longer time to live overflows in Redis.
MAX_SECONDS = 10**10


class Problem(NamedTuple):
    """What is wrong with an option, what may help, and the number of the system check that says so."""

    text: str
    hint: str
    code: str


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds, rounded up, so that no time but 0 becomes 0."""
    return math.ceil(seconds * 1000 - 1e-6) or int(seconds > 0)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the question that helps with a mistyped name, or nothing."""
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_seconds(
    name: str, value: object, *, least: float = 0, most: float = MAX_SECONDS, above: bool = False
) -> float:
    """Return a number of seconds, or raise ValueError; `above` refuses `least` itself."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < math.inf:
        raise ValueError(f"{name} must be a number of seconds, not {shown(value)}.")
    if value < least or (above and value == least):
        raise ValueError(f"{name} must be {'more than' if above else 'at least'} {least} seconds, not {shown(value)}.")
    if value > most:
        raise ValueError(f"{name} must be at most {most} seconds, not {shown(value)}.")
    return value


def check_count(name: str, value: object) -> int:
    """Return a whole number from 1 to sys.maxsize, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= sys.maxsize:
        raise ValueError(f"{name} must be a whole number from 1 to {sys.maxsize}, not {shown(value)}.")
    return value


def check_timeout(value: object) -> float | None:
    """Return the seconds that a task may run, None for no limit, or raise ValueError."""
    return None if value is None else check_seconds("timeout", value, above=True)


def check_on_commit(value: object) -> bool | str:
    """Return what an enqueue waits for, or raise ValueError."""
    if isinstance(value, bool) or (isinstance(value, str) and value):
        return value
    raise ValueError(f"on_commit must be True, False or the alias of a database, not {value!r}.")


def check_database(name: str, value: object) -> bool | str:
    """Return whether something is wanted, or the alias of the database in which it is, or raise ValueError."""
    if isinstance(value, bool):
        return value
    try:
        return check_record_alias(value)
    except InvalidName:
        raise ValueError(f"{name} must be True, False or the alias of a database, not {shown(value)}.") from None


def check_records(value: object) -> str:
    """Return which tasks have a row in the database, or raise ValueError."""
    if value not in ("none", "finished", "outbox"):
        raise ValueError(f"records must be 'none', 'finished' or 'outbox', not {value!r}.")
    return str(value)


def check_records_ttl(value: object) -> float | None:
    """Return the seconds after which the row of an ended task is deleted, None for never, or raise ValueError."""
    return None if value is None else check_seconds("records_ttl", value, above=True)


def _check_url(value: object) -> str:
    try:
        check_url(value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What all processes of a backend must agree on; times are in seconds."""

    url: str = "redis://localhost:6379/0"
    namespace: str = "taskq"
    lease_seconds: float = 30
    max_attempts: int = 3
    backoff: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: float | None = None
    result_ttl: float = 86_400
    idempotency_ttl: float = 86_400
    unknown_ttl: float = 86_400
    max_payload_bytes: int = 1_000_000
    on_commit: bool | str = True
    records: str = "none"
    records_ttl: float | None = None

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Options:
        """Return the options, or raise ImproperlyConfigured with all that is wrong with them."""
        if problems := cls.problems(options):
            raise ImproperlyConfigured(" ".join(f"{text} {hint}".strip() for text, hint, _ in problems))
        return cls(**{name: _RULES[name].check(value) for name, value in options.items()})

    @classmethod
    def problems(cls, options: object) -> list[Problem]:
        """Return what is wrong with the options; reads nothing but its argument."""
        if not isinstance(options, Mapping):
            return [Problem(f"OPTIONS must be a dict, not {options!r}.", "", "E002")]
        found = [problem for name, value in options.items() if (problem := _problem(name, value))]
        if options.get("records") == "outbox" and options.get("on_commit") is False:
            hint = "Leave on_commit out: outside of a transaction, nothing waits."
            found.append(Problem("records='outbox' and on_commit=False contradict each other.", hint, "E008"))
        return found

    @property
    def keeps_records(self) -> bool:
        """Whether ended tasks have a row in the database."""
        return self.records != "none"

    @property
    def lease_ms(self) -> int:
        return milliseconds(self.lease_seconds)

    @property
    def timeout_ms(self) -> int | None:
        return None if self.timeout is None else milliseconds(self.timeout)

    @property
    def result_ttl_ms(self) -> int:
        return milliseconds(self.result_ttl)

    @property
    def idempotency_ttl_ms(self) -> int:
        return milliseconds(self.idempotency_ttl)

    @property
    def unknown_ttl_ms(self) -> int:
        return milliseconds(self.unknown_ttl)


class _Rule(NamedTuple):
    """A check that returns the value or raises ValueError, and what helps whoever fails it."""

    check: Callable[[Any], Any]
    hint: str


#: What Django reads of an entry of TASKS.
_ENTRY = ("BACKEND", "QUEUES", "OPTIONS")

_RULES = {
    "url": _Rule(_check_url, "For example redis://localhost:6379/0."),
    "namespace": _Rule(check_namespace, "A short prefix without { } : *."),
    "lease_seconds": _Rule(
        partial(check_seconds, "lease_seconds", least=MIN_LEASE, most=MAX_LEASE), "It is renewed every third of it."
    ),
    "max_attempts": _Rule(partial(check_count, "max_attempts"), "1 means that nothing is retried."),
    "backoff": _Rule(RetryPolicy.parse, 'For example {"base": 1, "factor": 2, "cap": 300, "jitter": "equal"}.'),
    "timeout": _Rule(check_timeout, "None means no limit."),
    "result_ttl": _Rule(partial(check_seconds, "result_ttl"), "0 keeps no result."),
    "idempotency_ttl": _Rule(partial(check_seconds, "idempotency_ttl"), "0 forgets a key when its task succeeds."),
    "unknown_ttl": _Rule(partial(check_seconds, "unknown_ttl"), "0 buries at once what no worker knows."),
    "max_payload_bytes": _Rule(partial(check_count, "max_payload_bytes"), "1000000 is usual."),
    "on_commit": _Rule(check_on_commit, "True waits for every database with an open block."),
    "records": _Rule(check_records, "'finished' writes a row when a task ends, 'outbox' when it is enqueued."),
    "records_ttl": _Rule(check_records_ttl, "None keeps rows until they are pruned by hand."),
}


def misplaced(entry: Mapping[str, Any]) -> list[Problem]:
    """Return which keys of an entry of TASKS are options, or mistyped names of Django's own; any other is allowed."""
    found = []
    for key in map(str, entry):
        if key.lower() in _RULES:
            found.append(Problem(f"{key!r} belongs into OPTIONS.", f'"OPTIONS": {{"{key.lower()}": …}}', "E001"))
        elif key not in _ENTRY and (hint := did_you_mean(key.upper(), _ENTRY, cutoff=0.8)):
            found.append(Problem(f"Unknown key {key!r}.", hint.strip(), "E001"))
    return found


def _problem(name: Any, value: object) -> Problem | None:
    if name not in _RULES:
        hint = did_you_mean(str(name), _RULES) or f"It takes {', '.join(_RULES)}."
        return Problem(f"Unknown option {name!r}.", hint.strip(), "E001")
    try:
        _RULES[name].check(value)
    except ValueError as error:
        return Problem(str(error), _RULES[name].hint, "E002")
    return None
