"""Texts as every database takes them: none with NUL or a lone surrogate, and JSON that loses nothing by that."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def parsed(text: str) -> Any:
    """Return what a JSON text says; what is none, since somebody wrote it by hand, says nothing."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def to_json(value: object) -> str:
    """Return JSON; a lone surrogate becomes its escape, which means the same."""
    return storable(_encode(value))


@lru_cache(512)
def quoted(text: str) -> str:
    """Return the JSON of a text that many rows have."""
    return to_json(text)


def decoded(data: bytes) -> str:
    """Decode as the reader of JSON does, which lets surrogates pass; then what isn't text, by its bytes."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """Return a text without NUL, which PostgreSQL refuses, and lone surrogates, which are in no UTF-8."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def ascii_of(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
