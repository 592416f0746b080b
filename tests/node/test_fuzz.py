"""JSON as both languages write and read it: byte for byte the same, or refused by both with the same reason."""

from __future__ import annotations

import json
import random
import struct
import subprocess

import pytest

from django_taskq.arguments import to_json
from django_taskq.broker.envelope import dump_json, read_json
from tests.node.build import FOLDER
from tests.node.values import EDGES, KEYS, TEXTS, Source, as_javascript_has_it, seed_of_run
from tests.protocol.vectors import made

#: Values drawn in each direction.
COUNT = 12_000
REFUSED = b"!"


@pytest.fixture
def seed():
    return seed_of_run()


def node(settings, lines=()):
    """Run echo.mjs over lines, and return its answers."""
    done = subprocess.run(
        ["node", FOLDER / "echo.mjs", json.dumps(settings)],
        input=b"".join(line + b"\n" for line in lines), capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.split(b"\n")[:-1]


def write(value):
    """Return what an enqueue in Python makes of a value, or why it refuses it."""
    try:
        return b"=" + dump_json(to_json(value, "args"))
    except (TypeError, ValueError) as error:
        return REFUSED + str(error).encode()


def read(text):
    """Return the value that a Python worker is given; raise what makes a record unreadable."""
    return read_json(text.decode())


def echo(text):
    """Return what a Python worker makes of JSON when it hands on what it was given."""
    try:
        value = read(text)
    except (ValueError, RecursionError):
        return REFUSED
    return write(value)


def same(first, second):
    """Tell whether two values are the same to Python: 1 isn't 1.0, nor True, and -0.0 isn't 0.0."""
    return repr(first) == repr(second)


def assert_same_answers(texts, expected, answers):
    """Compare answers; of what can't be read, only that: a parser's words differ between releases of Python."""
    for text, ours, theirs in zip(texts, expected, answers, strict=True):
        shown = f"{text[:300]!r}: {ours[:300]!r} in Python, {theirs[:300]!r} in Node.js"
        assert theirs.startswith(REFUSED) if ours == REFUSED else ours == theirs, shown


def test_edges_are_the_same_bytes_after_node_has_read_and_written_them():
    texts = [dump_json(to_json(value, "args")) for value in EDGES]

    answers = node({"action": "exact"}, texts)

    assert_same_answers(texts, [b"=" + text for text in texts], answers)
    assert max(map(len, texts)) > 1_000_000
    for value, text in zip(EDGES, texts, strict=True):
        assert same(read(text), value)


def test_what_python_draws_is_the_same_bytes_after_node_has_read_and_written_it(seed):
    source = Source(seed)
    values = [source.value() for _ in range(COUNT)]
    texts = [dump_json(to_json(value, "args")) for value in values]

    answers = node({"action": "exact"}, texts)

    assert_same_answers(texts, [b"=" + text for text in texts], answers)
    assert all(same(read(answer[1:]), value) for answer, value in zip(answers, values, strict=True))


def test_what_node_draws_is_the_same_bytes_after_python_has_read_and_written_it(seed):
    texts = node({"draw": {"seed": seed, "count": COUNT}})

    assert_same_answers(texts, texts, [echo(text[1:]) for text in texts])
    again = node({"action": "exact"}, [text[1:] for text in texts])
    assert_same_answers(texts, texts, again)


def test_every_double_is_written_as_python_writes_it(seed):
    draw = random.Random(seed)
    patterns = [draw.randbytes(8) for _ in range(COUNT)]
    patterns += [struct.pack("<d", draw.randint(1, 10**17) / 10.0 ** draw.randint(-300, 300)) for _ in range(COUNT)]
    patterns += [struct.pack("<d", sign * 2.0**exponent) for exponent in range(-1074, 1024) for sign in (1, -1)]

    answers = node({"action": "double"}, [pattern.hex().encode() for pattern in patterns])

    for pattern, answer in zip(patterns, answers, strict=True):
        (double,) = struct.unpack("<d", pattern)
        # JavaScript's numbers have one type: a safe whole one is an integer.
        is_integer = double.is_integer() and abs(double) < 2**53 and str(double) != "-0.0"
        assert answer == write(int(double) if is_integer else double).replace(b" args ", b" value ")


#: What can't travel, as golden vectors describe it.
REFUSED_ALONE = [
    *({"float": name} for name in ("nan", "inf", "-inf")),
    *({"surrogate": unit} for unit in ("d800", "dfff")),
    *({"digits": 4301}, {"nested": 101}),
]


def wrapped(draw, described, depth):
    """Put a value into so many lists and objects; the paths to it differ."""
    if depth == 0:
        return described
    before = [draw.choice([0, "a", None]) for _ in range(draw.randint(0, 3))]
    if draw.random() < 0.5:
        return wrapped(draw, {"list": [*before, described]}, depth - 1)
    key = draw.choice([*KEYS, *TEXTS, "it's", 'it\'s "so"'])
    others = {f"k{place}": each for place, each in enumerate(before)}
    return wrapped(draw, {"object": [*others.items(), (key, described)]}, depth - 1)


def test_what_can_not_travel_is_refused_with_the_same_words(seed):
    draw = random.Random(seed)
    drawn = [wrapped(draw, draw.choice(REFUSED_ALONE), draw.randint(0, 10)) for _ in range(2000)]
    drawn += [*REFUSED_ALONE, {"object": [[{"surrogate": "dc80"}, 1]]}, {"nested": 2000}]

    answers = node({"action": "described"}, [json.dumps(described).encode() for described in drawn])

    for described, answer in zip(drawn, answers, strict=True):
        expected = write(made(described))
        assert expected.startswith(REFUSED)
        assert answer.decode() == expected.decode(), described


#: JSON as others may write it, and what looks like it.
WRITTEN = [
    *(
        b" [ 1 , 2 ] ", b"\t{\r\n}", b"[1,]", b"{,}", b"", b" ", b"-", b"01", b"-01", b"1.", b".5", b"+1", b"1e",
        b"0x10",
    ),
    *(
        b"-0", b"1E5", b"1e5", b"1e-5", b"1E+05", b"0e0", b"-0e0", b"0.0", b"0.10", b"1.0e0", b"100e-2", b"1e22",
        b"1e400",
    ),
    *(b"-1e400", b"1e-400", b"NaN", b"Infinity", b"-Infinity", b"nan", b"True", b"undefined", b"'a'", b'"a', b"a"),
    *(
        b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\uD83D"', b'"\\u00e9"', b'"\\x41"', b'"\\u12"',
        b'"\\/"',
    ),
    *(
        b'"\x01"', b'"\x7f"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b"\xef\xbb\xbf1",
        b"\xa0",
    ),
    *(
        b'{"a":1,"a":2}', b'{"b":1,"a":2,"b":3}', b'{"1":1,"a":2,"1":3}', b"{1:2}", b'{"a"}', b"[1 2]", b"//",
        b"/**/1", b"[]]",
    ),
    *(b"9" * 4300, b"9" * 4301, b"-" + b"9" * 4300, b"1" + b"0" * 4300 + b".0", b"0." + b"1" * 5000, b"1e4300"),
    *(b"9007199254740993", b"9007199254740993.0", b"9007199254740992.5", b"123456789012345678901234567890.0"),
    *(b"-918861222976596.0096", b"1.0000000000000001", b"0.99999999999999999999", b"0." + b"0" * 400 + b"1"),
    *(b"[" * depth + b"]" * depth for depth in (99, 100, 101, 500)),
    *(b"[" * depth for depth in (99, 500)),
]  # fmt: skip


def test_json_that_others_wrote_is_read_alike(seed):
    source = Source(seed)
    texts = [text for text in WRITTEN if b"\n" not in text]
    while len(texts) < COUNT:
        text = source.mutated(dump_json(source.value()))
        if b"\n" not in text:
            texts.append(text)

    assert_same_answers(texts, [echo(text) for text in texts], node({"action": "exact"}, texts))


def test_without_exact_all_is_equal_and_only_whole_floats_and_integer_keys_look_different(seed):
    source = Source(seed)
    values = [*EDGES, *(source.value() for _ in range(COUNT // 2))]
    texts = [dump_json(value) for value in values]

    answers = node({"action": "plain"}, texts)

    looks_different = 0
    for value, text, answer in zip(values, texts, answers, strict=True):
        assert answer[:1] == b"="
        assert json.loads(answer[1:]) == value
        if answer[1:] != text:
            looks_different += 1
            assert answer[1:] == dump_json(as_javascript_has_it(value))
    assert looks_different
