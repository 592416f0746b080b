"""The golden vectors, with descriptions made into values; docs/reference/protocol.md says what each means."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

PATH = Path(__file__).resolve().parents[2] / "docs" / "reference" / "protocol-vectors.json"
VECTORS: dict[str, Any] = json.loads(PATH.read_text())

#: Fields of a vector that are shown in the name of its test, the first that it has.
_SHOWN = ("id", "name", "text", "read", "hex", "policy", "task", "lines", "value", "script", "line", "fields")


def entries(section: str) -> list[Any]:
    """Return the vectors of a section, each once, as parameters of a test."""
    found = VECTORS[section]
    assert found
    return list(found)


def shown(vector: dict[str, Any]) -> str:
    """Return a short name of a vector."""
    what = next(vector[field] for field in _SHOWN if field in vector)
    return ascii(what).strip("'")[:60]


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def _digits(count: int) -> int:
    number: int = 10 ** (abs(count) - 1)
    return number if count > 0 else -number


def _repeated(pair: tuple[str, int]) -> str:
    return pair[0] * pair[1]


MADE = {
    "integer": int,
    "digits": _digits,
    "double": lambda bits: struct.unpack(">d", bytes.fromhex(bits))[0],
    "float": float,
    "points": lambda points: "".join(map(chr, points)),
    "surrogate": lambda unit: chr(int(unit, 16)),
    "repeat": _repeated,
    "concat": lambda parts: "".join(map(made, parts)),
    "nested": _nested,
    "list": lambda items: [made(item) for item in items],
    "object": lambda pairs: {made(name): made(value) for name, value in pairs},
}


def made(described: Any) -> Any:
    """Return the value that is described; what is no object stands for itself."""
    if not isinstance(described, dict):
        return described
    ((kind, detail),) = described.items()
    return MADE[kind](detail)


def made_bytes(described: Any) -> bytes:
    """Return the bytes of a described text, or those that are written out."""
    if isinstance(described, dict) and "hex" in described:
        return bytes.fromhex(described["hex"])
    return bytes(made(described).encode())


def is_same(value: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same: their types, the sign of a zero and the order of keys too."""
    if type(value) is not type(other):
        return False
    if isinstance(value, float):
        return struct.pack(">d", value) == struct.pack(">d", other)
    if isinstance(value, list):
        return len(value) == len(other) and all(map(is_same, value, other))
    if isinstance(value, dict):
        return list(value) == list(other) and all(is_same(value[name], other[name]) for name in value)
    return bool(value == other)
