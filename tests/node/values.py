"""Values for the fuzz, drawn by a seed: what JSON, Python and JavaScript see differently comes often."""

from __future__ import annotations

import os
import random
import struct
import sys
import unicodedata
from typing import Any

Value = Any

INTEGERS = (
    *(0, 1, -1, 10, 2**31 - 1, 2**31, 2**32, 2**53 - 2, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) + 1, -(2**53)),
    *(-(2**53) - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**21, 10**22, 123456789012345, 10**308, 10**309, -(10**400)),
)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.1, 0.1 + 0.2, 1e-4, 1e-5, 1e-7, 123456.789, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, 1e23),
    *(2.0**53 - 1, 2.0**53, 2.0**53 + 2, -(2.0**53), 2.0**63, 5e-324, 2.2250738585072014e-308, 2.225073858507201e-308),
    *(sys.float_info.max, -sys.float_info.max, sys.float_info.epsilon, 1.7976931348623157e308, 9007199254740993.0),
)
TEXTS = (
    *(
        "", "a", '"', "\\", "\\u0000", "/", "</script>", "\x00", "\x00\x01\x1f", "\b\f\n\r\t", "\x7f", "\x80\x9f",
        "\u2028",
    ),
    *("\u2029", "\ufeff", "\ufffd", "\uffff", "é", "e\u0301", "語", "😀", "𐐷\x00", "\U0010ffff", "null", "1.0", "NaN"),
    *("\ud7ff\ue000", "{", "]", "[]", "-0", "true", "\U0001f468\u200d\U0001f469", "\N{RIGHT-TO-LEFT OVERRIDE}abc"),
)  # fmt: skip
KEYS = (
    *("", "0", "1", "2", "10", "01", "-1", "1.0", "4294967294", "4294967295", "4294967296", "9007199254740991"),
    *("__proto__", "constructor", "prototype", "toString", "valueOf", "toJSON", "hasOwnProperty", "length", "then"),
)


class Source:
    """Draws JSON values; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def value(self, depth: int = 0) -> Value:
        kind = self.draw.random()
        if depth < 5 and kind < 0.35:
            size = self.draw.choice((0, 1, 1, 2, 3, 6))
            if kind < 0.17:
                return [self.value(depth + 1) for _ in range(size)]
            return {self.key(): self.value(depth + 1) for _ in range(size)}
        draws = (self.integer, self.real, self.text, lambda: self.draw.choice((None, True, False)))
        return self.draw.choices(draws, (4, 4, 4, 1))[0]()

    def integer(self) -> int:
        if self.draw.random() < 0.4:
            return self.draw.choice(INTEGERS)
        bits = self.draw.choice((4, 20, 53, 54, 64, 100, 2000))
        return self.draw.choice((1, -1)) * self.draw.getrandbits(bits)

    def real(self) -> float:
        kind = self.draw.random()
        if kind < 0.3:
            return self.draw.choice(FLOATS)
        if kind < 0.5:
            return float(self.draw.randint(-(10**6), 10**6)) / 10 ** self.draw.randint(0, 6)
        if kind < 0.6:
            return float(self.draw.choice((1, -1)) * self.draw.getrandbits(70) * 10 ** self.draw.randint(0, 30))
        found = struct.unpack("<d", self.draw.randbytes(8))[0]
        return found if found - found == 0 else -0.0

    def text(self) -> str:
        if self.draw.random() < 0.5:
            return self.draw.choice(TEXTS)
        return "".join(self.character() for _ in range(self.draw.choice((1, 2, 5, 20))))

    def character(self) -> str:
        low, high = self.draw.choice(((0, 0x20), (0x20, 0x7F), (0x7F, 0x250), (0x2000, 0xD7FF), (0xE000, 0x10FFFF)))
        return chr(self.draw.randint(low, high))

    def key(self) -> str:
        kind = self.draw.random()
        if kind < 0.4:
            return self.draw.choice(KEYS)
        # How an unassigned one is shown where a key stands in a message depends on the release of Unicode.
        text = "".join(filter(is_assigned, self.text()))
        return str(self.draw.randint(0, 2**33)) if kind < 0.5 else text

    def mutated(self, document: bytes) -> bytes:
        """Return a document with one thing about it changed: mostly no JSON any more."""
        place = self.draw.randrange(len(document) + 1)
        pieces = (
            b"", b" ", b"0", b"-", b".", b"e9", b"E+1", b",", b'"', b"\\", b"\\ud800", b"\xff", b"]", b"NaN",
            b"1e999", b"\x00",
        )  # fmt: skip
        return document[:place] + self.draw.choice(pieces) + document[place + self.draw.choice((0, 0, 1, 3)) :]


def is_assigned(character: str) -> bool:
    return unicodedata.ucd_3_2_0.category(character) != "Cn"


def nested(depth: int) -> Value:
    """Return a list in a list, so many levels deep."""
    made: Value = []
    for _ in range(depth - 1):
        made = [made]
    return made


#: What is most likely to be bent.
EDGES = [
    *INTEGERS,
    *FLOATS,
    *TEXTS,
    *({key: 1} for key in KEYS),
    dict.fromkeys(KEYS, 0),
    {key: {key: [key]} for key in KEYS},
    *([], {}, [[]], [{}], {"a": []}, {"a": {}}, None, True, False),
    *(10**4299, -(10**4299), 10**4300 - 1, 1 - 10**4300),
    *(nested(depth) for depth in (2, 98, 99, 100)),
    ["é😀\x00" * 120_000, list(range(60_000)), {str(number): number / 7 for number in range(20_000)}],
]


def seed_of_run() -> int:
    """Return the seed that `TASKQ_FUZZ_SEED` sets, by default the same each time; `make fuzz` draws others."""
    seed = int(os.environ.get("TASKQ_FUZZ_SEED") or 1)
    print(f"TASKQ_FUZZ_SEED={seed}")
    return seed


def as_javascript_has_it(value):
    """Return a value with whole floats as integers, and integer-like keys first."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0":
        return int(value)
    if isinstance(value, list):
        return [as_javascript_has_it(item) for item in value]
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (0, int(key)) if is_array_index(key) else (1, 0))
        return {key: as_javascript_has_it(value[key]) for key in keys}
    return value


def is_array_index(key):
    """Tell whether JavaScript puts a key before all others (https://tc39.es/ecma262/#array-index)."""
    return key.isascii() and key.isdigit() and len(key) <= 10 and str(int(key)) == key and int(key) < 2**32 - 1
