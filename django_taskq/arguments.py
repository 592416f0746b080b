"""What may travel as JSON: what comes back equal, and nothing else.

Tuples become lists, as in Django. Everything that JSON would bend or lose is refused, with the place where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.utils.functional import Promise

#: Levels of lists and dicts in each other; readers of JSON in other languages, and Python's stack, end soon behind it.
MAX_DEPTH = 100
#: Python reads and writes no longer integers as text (`sys.set_int_max_str_digits`).
MAX_INT_DIGITS = 4300

#: Pieces of a path that are shown before it is cut.
_SHOWN = 8

_HINTS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Model, "pass its primary key and load it in the task"),
    ((date, time), "pass its isoformat()"),
    ((Decimal, Promise, UUID), "pass str() of it"),
    ((set, frozenset), "pass a list"),
    ((bytes, bytearray, memoryview), "pass text, for instance base64"),
)


class LoneSurrogate(ValueError):
    """A text holds half of a character, as one does that was decoded from bytes which are no UTF-8."""


class _Refused(Exception):
    """A value can't travel; the keys on the way to it are gathered while the stack unwinds, innermost first."""

    def __init__(self, kind: type[TypeError | ValueError], reason: str) -> None:
        self.kind = kind
        self.reason = reason
        self.path: list[str] = []

    def error(self, root: str) -> TypeError | ValueError:
        pieces = self.path[::-1]
        shown = "".join(pieces[:_SHOWN]) + ("…" if len(pieces) > _SHOWN else "")
        unsupported = "type" if self.kind is TypeError else "value"  # in Django's own words
        return self.kind(f"Unsupported {unsupported}: {root}{shown} {self.reason}")


def to_json(value: object, what: str) -> Any:
    """Return a plain copy of a JSON value; raise TypeError or ValueError that says where in `what` it isn't one."""
    try:
        return _plain(value, 0)
    except _Refused as refused:
        raise refused.error(what) from None


def without_surrogates(value: Any) -> Any:
    """Return a JSON value in which each lone surrogate is written out as its escape, `\\udc80`."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [without_surrogates(item) for item in value]
    return value


def _plain(value: object, depth: int) -> Any:
    copy = _COPIES.get(type(value)) or _copy_of_lookalike(value)
    return copy(value, depth)


def _copy_of_lookalike(value: object) -> _Copy:
    """Return how to copy what has a type of its own, or raise `_Refused`."""
    for kind in (bool, str, int, float, Mapping):
        if isinstance(value, kind):
            return _COPIES[kind]
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return _sequence
    raise _Refused(TypeError, f"is a {type(value).__qualname__}, which JSON can't carry{_hint(value)}.")


def _sequence(value: Sequence[Any], depth: int) -> list[Any]:
    _check_depth(depth)
    plain: list[Any] = []
    try:
        for item in value:
            plain.append(_plain(item, depth + 1))
    except _Refused as refused:
        refused.path.append(f"[{len(plain)}]")
        raise
    return plain


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    _check_depth(depth)
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = _key(key)
        try:
            plain[name] = _plain(item, depth + 1)
        except _Refused as refused:
            refused.path.append(f"[{key!r}]")
            raise
    return plain


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise _Refused(ValueError, f"is nested more than {MAX_DEPTH} levels deep, or contains itself.")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise _Refused(TypeError, f"has the key {key!r}, and JSON has only strings as keys.")
    return _text(key)


def _itself(value: Any, depth: int) -> Any:
    return value


def _text(value: str, depth: int = 0) -> str:
    if not str.isascii(value):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused(LoneSurrogate, "holds a lone surrogate, which is no text.") from None
    return str.__str__(value)


def _integer(value: int, depth: int) -> int:
    if value.bit_length() > MAX_INT_DIGITS * 3 and abs(value) >= 10**MAX_INT_DIGITS:
        raise _Refused(ValueError, f"is an integer of more than {MAX_INT_DIGITS} digits.")
    return int.__int__(value)


def _float(value: float, depth: int) -> float:
    if not math.isfinite(value):
        name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        raise _Refused(ValueError, f"is {name}, which JSON doesn't have.")
    return float.__float__(value)


#: Takes a value and how deep it stands.
_Copy = Callable[[Any, int], Any]
_COPIES: dict[type, _Copy] = {
    NoneType: _itself,
    bool: _itself,
    str: _text,
    int: _integer,
    float: _float,
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    Mapping: _mapping,
}


def _hint(value: object) -> str:
    return next((f": {hint}" for kind, hint in _HINTS if isinstance(value, kind)), "")
