"""Records as anybody may have written them: both languages read the same, or refuse them with the same words."""

from __future__ import annotations

import json
import random

import pytest

from django_taskq.broker.envelope import Envelope, dump_json, parse_task
from django_taskq.broker.exceptions import UnreadableRecord
from django_taskq.broker.records import Attempt
from tests.node.test_fuzz import node, write
from tests.node.values import Source, seed_of_run

COUNT = 4000

#: Values for each field of an envelope: some that it takes, and what looks like them.
ODD = [None, True, False, 0, 1, -1, 3, 2**53 - 1, 1.0, 3.0, -0.0, 1.5, 1e300, "", "a", "3", [], {}, [1], {"a": 1}]
FIELDS = {
    "v": [1, 1, 1, 1, 2, 0, None, "1", 1.0, True, [1], 10**30],
    "name": ["border.work", "a", "", "é😀", "a\x00b", "__proto__"],
    "args": [[], [1, "a"], [[]], [{"__proto__": 1}], [1.0, -0.0, 10**30]],
    "kwargs": [{}, {"a": 1}, {"__proto__": {"x": 1}}, {"2": 1, "1": 2}, {"constructor": []}],
    "run_after": [0, 1796013784718, -1, 1.5e12, 10**30, -(2**53), 1 - 2**53],
    "max_attempts": [1, 2, 3, 4, 100, 0, -5, 3.0, 2**53 - 1, 2**53, 10**30],
    "backoff": [],
    "timeout_ms": [1, 1000, 10**13, 10**13 + 1, 10**30, 0, 0.5],
    "result_ttl_ms": [0, 1, 86_400_000, 10**13, 10**14, -1],
    "atomic": ["default", "other", ""],
    "meta": [{}, {"path": "a.b"}, {"path": 1}, {"1": 1.0}],
    "other": [1, {}, "later"],
}
BACKOFF = {
    "base": [0, 1, 1.0, 0.5, 2, 3_155_760_000, 3_155_760_001, 10**400, -1, "1", None, True],
    "factor": [0, 1, 2, 2.0, 1.5, 1e308, 10**308, 10**309, -1, [], None],
    "cap": [0, 300, 300.0, 3_155_760_000, -0.0, False],
    "jitter": ["none", "equal", "full", "", "Equal", None, 1],
    "more": [1],
}


UNWRITABLE = b"!Unsupported value"


def drawn(draw, pools, chance):
    """Draw some of the fields, in any order, now and then with a value of another kind."""
    names = [name for name in pools if draw.random() < chance]
    draw.shuffle(names)
    return {name: draw.choice(ODD if draw.random() < 0.04 else pools[name] or ODD) for name in names}


def document(draw):
    made = drawn(draw, FIELDS, 0.35)
    if draw.random() < 0.9:
        made["name"] = made.get("name") or "border.work"
    if draw.random() < 0.4:
        made["backoff"] = drawn(draw, BACKOFF, 0.6)
    return made


def read(text):
    """Return what Python writes when it hands an envelope on; `!Unsupported` where that is more than it may write."""
    try:
        return b"=" + Envelope.from_bytes(text).to_bytes()
    except UnreadableRecord as error:
        return f"!{type(error).__name__}: {error}".encode(errors="backslashreplace")
    except ValueError:
        return UNWRITABLE


def verdict(answer):
    """Return what is compared of an answer: a parser's words differ between releases of Python."""
    return answer.partition(b"no JSON:")[0]


@pytest.fixture
def envelopes():
    seed = seed_of_run()
    source, draw = Source(seed), random.Random(seed)
    texts = [dump_json(document(draw)) for _ in range(COUNT)]
    texts += [source.mutated(draw.choice(texts)) for _ in range(COUNT)]
    texts += [dump_json(source.value()) for _ in range(200)]
    return [text for text in texts if b"\n" not in text]


def test_an_envelope_is_read_alike_or_refused_with_the_same_words(envelopes):
    ours = [read(text) for text in envelopes]
    exact = node({"action": "envelope"}, envelopes)
    verdicts = node({"action": "verdict"}, envelopes)

    for text, expected, answer, plain in zip(envelopes, ours, exact, verdicts, strict=True):
        if expected.startswith(b"=") or expected == UNWRITABLE:
            assert plain == b"=read", text
            assert answer.startswith(expected) if expected == UNWRITABLE else answer == expected, text
        else:
            assert verdict(answer) == verdict(expected), text
            # A value that it shows may be a float that isn't seen to be one.
            assert plain.partition(b":")[0] == answer.partition(b":")[0], text
    assert len({verdict(one) for one in ours}) > 50
    assert sum(one.startswith(b"=") for one in ours) > COUNT / 8


HEADS = [
    b"1796013784718 0 default\n\n{}",
    b"1796013784718 -100 q\nkey 86400000 order 1\n\n{}",
    "1796013784718 7 naïve 語\nkey 0 k\nrecord default\n\n{}".encode(),
    b"1 2 3\nrecord other\nunique a b c\n\n\n\n",
    b"1 2 3\nlimit 5\nbatch x\nkey 5\nkey 6 b\n\n",
    *(b"1 2 3\n4", b"\n\n", b"", b"1 2 \xff\n\n{}", b"1 2 q\n\nkey 5 a\n\n", b"1 2 q\nkey x y\n\n", b"1 2 q\nkey\n\n"),
    *(
        b"1 2 q\nrecord\n\n",
        b"1 2 q\nrecord \n\n",
        b"1.0 2 q\n\n",
        b" 1 2 3\n\n",
        b"1  3\n\n",
        b"1 2\n\n",
        b"1_0 +2 q\n\n",
    ),
]


def test_the_head_of_a_record_is_read_alike():
    source = Source(seed_of_run())
    tasks = [*HEADS, *(source.mutated(source.draw.choice(HEADS)) for _ in range(COUNT))]
    lines = [json.dumps(task.decode("latin1")).encode() for task in tasks]

    for task, answer in zip(tasks, node({"action": "head"}, lines), strict=True):
        head, envelope = parse_task(task, "given")
        assert answer == write([list(head), envelope.decode("latin1")]), task


LOGS = [
    b'1 1796013784718 1796013784719 1796013784720 worker.abcdefgh {"result":{"a":[1.0,-0.0]}}',
    b'1 2 3 4 w.c {"error":"builtins.ValueError","message":"no","traceback":"Traceback","reason":"lease expired"}',
    b'1 2 3 4 w.c {"error":"E","message":null,"reason":""}',
    b'1 2 3 4 w.c {"error":"E","result":[1]}',
    *(
        b'2 3 4 5 w.c {"result":null}',
        b"1 2 3 4 - {}",
        b'1 2 3 4 w.c {"error":null}',
        b"1 2 3 4 w.c []",
        b"1 2 3 4 w.c null",
    ),
    *(b"1 2 3 4 w.c", b"x 2 3 4 w.c {}", b"1 2 3 4 w.c {}}", b"", b"\xff", b'1 2 3 4 w.c {"result":NaN}'),
]


def test_a_line_of_the_log_is_read_alike():
    source = Source(seed_of_run())
    documents = [log.partition(b" w.c ")[2] for log in LOGS[1:7]]
    logs = [*LOGS, *(b"1 2 3 4 w.c " + source.mutated(source.draw.choice(documents)) for _ in range(COUNT))]
    lines = [json.dumps(log.decode("latin1")).encode() for log in logs]

    for log, answer in zip(logs, node({"action": "attempt"}, lines), strict=True):
        one = Attempt.from_line(log)
        why = one.error and [one.error.error, one.error.message, one.error.traceback, one.error.reason]
        expected = [one.attempt, one.token, one.started_at, one.ended_at, one.child, why, one.result]
        assert answer == write(expected) or tells_no_text(log), log


def tells_no_text(log):
    """Tell whether what stands for the text of an error is none: each language shows it in its own way."""
    try:
        document = json.loads(log.split(b" ", 5)[5])
        return any(
            not isinstance(document.get(name), str | None) for name in ("error", "message", "traceback", "reason")
        )
    except ValueError:
        return False
