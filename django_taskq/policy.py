"""What a task may say about its attempts, brought into one form: hashable, and checked where it is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from .broker.keys import check_idempotency_key
from .broker.retry import RetryPolicy
from .compat import InvalidTask, TaskResult
from .conf import check_count, check_database, check_on_commit, check_seconds, check_timeout

#: A policy, or a callable that takes the exception and the result and returns seconds, or None for no other attempt.
Backoff = RetryPolicy | Callable[[BaseException, TaskResult], float | None]
ExceptionClasses = tuple[type[BaseException], ...]

#: Characters of a name in the queue.
MAX_NAME_LENGTH = 255


def check_wire_name(value: object) -> str:
    """Return the name of a task in the queue, or raise ValueError."""
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= MAX_NAME_LENGTH:
        raise ValueError(f"name must be 1 to {MAX_NAME_LENGTH} printable characters, not {value!r}.")
    return value


def check_backoff(value: Any) -> Backoff:
    """Return a callable as it is, and anything else as a policy, or raise ValueError."""
    return value if callable(value) else RetryPolicy.parse(value)


def check_exceptions(name: str, value: Any) -> ExceptionClasses:
    """Return a tuple of exception classes; one class may stand alone."""
    classes = tuple(value) if isinstance(value, Iterable) else (value,)
    for each in classes:
        if not isinstance(each, type) or not issubclass(each, BaseException):
            raise ValueError(f"{name} must hold exception classes, not {each!r}.")
    return classes


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "wire_name": check_wire_name,
    "max_attempts": partial(check_count, "max_attempts"),
    "backoff": check_backoff,
    "timeout": check_timeout,
    "result_ttl": partial(check_seconds, "result_ttl"),
    "retry_on": partial(check_exceptions, "retry_on"),
    "bury_on": partial(check_exceptions, "bury_on"),
    "on_commit": check_on_commit,
    "outbox": partial(check_database, "outbox"),
    "atomic": partial(check_database, "atomic"),
    "idempotency_key": check_idempotency_key,
}


#: Fields in which None would not mean that the backend decides.
_NEVER_NONE = {"retry_on", "bury_on"}


def check_policy(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the policy fields in their lasting form, without those that are None; or raise InvalidTask."""
    try:
        return {
            name: _CHECKS[name](value)
            for name, value in fields.items()
            if name in _CHECKS and (value is not None or name in _NEVER_NONE)
        }
    except ValueError as error:
        raise InvalidTask(str(error)) from error


#: What the declaration of a remote task can't say: whether it does, and what there is to do instead.
_NOT_REMOTE: tuple[tuple[Callable[[Mapping[str, Any]], object], str], ...] = (
    (lambda task: not task["wire_name"], 'needs the name that its worker knows, as in name="receipts.render"'),
    (lambda task: task["takes_context"], "takes no context, for it doesn't run here: leave takes_context out"),
    (lambda task: callable(task["backoff"]), "is retried by its worker, which needs a number or a dict as backoff"),
    (
        lambda task: task["retry_on"] != (BaseException,) or task["bury_on"] != (),
        "leaves it to its worker which errors are final: leave retry_on and bury_on out",
    ),
    (
        lambda task: task["outbox"] or task["atomic"],
        "has no row: leave outbox and atomic out; it waits for the commit all the same",
    ),
)


def check_remote(fields: Mapping[str, Any]) -> None:
    """Check what the declaration of a task says that another program works on, or raise InvalidTask."""
    for is_refused, why in _NOT_REMOTE:
        if is_refused(fields):
            raise InvalidTask(f"A remote task {why}.")


def check_run_after(value: object) -> dict[str, datetime | timedelta | None]:
    """Return the fields that a moment or a delay goes into, or raise InvalidTask."""
    if isinstance(value, datetime):
        return {"run_after": value, "run_after_delay": None}
    if not isinstance(value, timedelta):
        raise InvalidTask(f"run_after must be a datetime or a timedelta, not {value!r}.")
    try:
        timezone.now() + value
    except OverflowError:
        if value > timedelta(0):
            raise InvalidTask("run_after lies beyond the year 9999.") from None
    return {"run_after": None, "run_after_delay": value}
