"""Values on their way through both languages and Redis: what each hop stored is the same, byte for byte."""

from __future__ import annotations

import json

import pytest

from django_taskq.arguments import MAX_DEPTH
from django_taskq.broker.envelope import dump_json
from tests.node import tasks
from tests.node.values import EDGES, Source, as_javascript_has_it, nested, seed_of_run
from tests.rules import check_rules

#: Values that travel in each direction.
COUNT = 250


@pytest.fixture
def start_both(start_python, start_node):
    """Give a function that starts a worker in each language, each with a queue of its own."""

    def start(exact, most=1_000_000):
        start_python("python", "-q", "python", lease=30, options={"max_payload_bytes": most})
        options = {"exact": exact, "maxPayloadBytes": most}
        start_node("node", queues=["node"], concurrency=10, lease=30, options=options)

    return start


@pytest.fixture
def hops(ended, ledger_client, redis_client):
    """Give a function that returns what each of two hops was given and returned, as the bytes that Redis holds."""

    def stored(record):
        _, separator, args = record.envelope_bytes.partition(b',"args":[')
        assert separator, record.envelope_bytes
        (line,) = redis_client.lrange(f"{{taskq}}:log:{record.id}", 0, -1)
        result = line.split(b" ", 5)[5]
        assert result[:10] == b'{"result":'
        return args, result[10:-1]

    def hops(ids):
        found = []
        for batch in (ids[start : start + 50] for start in range(0, len(ids), 50)):
            first = ended(*batch, timeout=60)
            following = [one.decode() for one in ledger_client.hmget("hops", batch)]
            second = ended(*following, timeout=60)
            check_rules([*first, *second])
            assert {record.state for record in (*first, *second)} == {"succeeded"}
            found += [(*stored(one), *stored(other)) for one, other in zip(first, second, strict=True)]
        return found

    return hops


def assert_same_bytes(texts, found):
    for text, (given, returned, handed_on, returned_last) in zip(texts, found, strict=True):
        assert given.startswith(text + b"]"), f"enqueued: {text[:300]!r}"
        assert returned == text, f"the first result: {text[:300]!r}"
        assert handed_on.startswith(text + b'],"kwargs":{"again":' + text + b"}"), f"handed on: {text[:300]!r}"
        assert returned_last == text, f"the last result: {text[:300]!r}"


def drawn(seed):
    """Return values for Python to enqueue: the edges that may be an argument, and some that are drawn."""
    source = Source(seed)
    edges = [value for value in EDGES if value != nested(MAX_DEPTH) and len(dump_json(value)) < 200_000]
    return [*edges, *(source.value() for _ in range(COUNT))]


def enqueue_to_node(values):
    return [
        result.id for result in tasks.echo_on.using(queue_name="node").enqueue_many([((one,), {}) for one in values])
    ]


def test_c45_from_python_through_node_to_python_every_byte_stays(start_both, hops):
    values = drawn(seed_of_run())
    start_both(exact=True)

    assert_same_bytes([dump_json(value) for value in values], hops(enqueue_to_node(values)))


def test_c45_from_node_through_python_to_node_every_byte_stays(start_both, start_hand, hops):
    seed = seed_of_run()
    start_both(exact=True)
    sent = start_hand(exact=True).ask("draw", seed=seed, count=COUNT, name="border.echo_on", queue="python")

    assert_same_bytes([text.encode() for _, text in sent], hops([record_id for record_id, _ in sent]))


def test_c55_a_megabyte_stays_the_same_in_both_directions(start_both, hand, hops):
    value = [{"é😀\x00\n" * 20_000: -0.0}, list(range(2**53, 2**53 + 20_000)), {f"{n}": n / 7 for n in range(12_000)}]
    text = dump_json(value)
    assert 900_000 < len(text) < 999_000
    start_both(exact=True, most=3_000_000)
    there = enqueue_to_node([value])
    back = hand.ask("enqueue", name="border.echo_on", args=f"[{text.decode()}]", options={"queue": "python"})

    assert_same_bytes([text, text], hops([*there, back["id"]]))


def test_c45_without_exact_every_value_is_equal(start_both, hops):
    values = drawn(seed_of_run())
    start_both(exact=False)

    looks_different = 0
    for value, (given, returned, handed_on, returned_last) in zip(values, hops(enqueue_to_node(values)), strict=True):
        text, there = dump_json(value), dump_json(as_javascript_has_it(value))
        assert given.startswith(text + b"]")
        assert json.loads(returned) == json.loads(returned_last) == value
        assert returned == returned_last == there
        assert handed_on.startswith(there + b'],"kwargs":{"again":' + there + b"}")
        looks_different += text != there
    assert looks_different
