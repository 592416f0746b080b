"""The admin with a million dead letters: what a page costs doesn't grow with their number."""

from __future__ import annotations

import time

import pytest

from django_taskq.broker.envelope import Envelope
from tests.app.admin import VIEW, client_of, error, rows, text_of, url

COUNT = 1_000_000
#: Letters that have records, from either end; the others are ids only.
WHOLE = 3000
QUEUES = ("default", "exports", "mail", "payments")
FIRST = 1_790_000_000_000
#: Milliseconds that Django and Redis may compute for a page.
BUDGET = 300


def record_id(number):
    return f"01M{number:023}"


def fill(broker):
    """Store a million dead letters in four queues, one every 50 ms."""
    client, keys = broker.client, broker.keys
    client.sadd(keys.queues, *QUEUES)
    line = b"3 1790000000000 1790000000000 1790000000100 w.abc " + error(traceback="Traceback\n" + "  File x\n" * 100)
    for start in range(0, COUNT, 20_000):
        with client.pipeline(transaction=False) as pipeline:
            for offset, queue in enumerate(QUEUES):
                numbers = range(start + offset, start + 20_000, len(QUEUES))
                pipeline.zadd(keys.dead(queue), {record_id(number): FIRST + number * 50 for number in numbers})
                for number in numbers:
                    if WHOLE <= number < COUNT - WHOLE:
                        continue
                    body = Envelope("shop.pay" if number % 7 else "shop.rare", args=[number]).to_bytes()
                    pipeline.set(keys.task(record_id(number)), f"{FIRST} 0 {queue}\n\n".encode() + body)
                    pipeline.hset(keys.run(record_id(number)), mapping={"state": "dead", "attempts": 3, "token": 5})
                    pipeline.rpush(keys.log(record_id(number)), line)
            pipeline.execute()


@pytest.fixture
def cost(backend):
    """Give a function that opens a page, and returns it with the ms that this thread and Redis computed for it."""
    client = client_of(*VIEW)

    def computed():
        info = backend.broker.client.info("cpu")
        return time.thread_time() + info["used_cpu_user"] + info["used_cpu_sys"]

    def measure(query):
        best, response = float("inf"), None
        for _ in range(3):
            before = computed()
            response = client.get(url("deadletter") + query)
            best = min(best, (computed() - before) * 1000)
        assert len(text_of(response)) < 300_000
        return response, best

    return measure


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.django_db
@pytest.mark.leaves_keys("most letters have no record here")
def test_a_million_dead_letters_cost_no_more_than_a_few(backend, cost):
    fill(backend.broker)
    newest = COUNT - 1
    expected = {
        "": (50, newest),
        "?p=10000": (50, newest - 9999 * 50),
        "?p=20000": (50, 49),
        "?o=4": (50, 0),
        "?queue=payments&p=5000": (50, 199),
        "?task=shop.rare": (50, 999_999 - 999_999 % 7),
        f"?q={record_id(777)}": (1, 777),
    }
    spent = {}
    for query, (count, first) in expected.items():
        response, spent[query] = cost(query)
        assert len(rows(response)) == count, query
        assert rows(response)[0] == record_id(first), query
    assert {query: round(ms) for query, ms in spent.items() if ms > BUDGET} == {}
