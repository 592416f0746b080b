"""C40: tens of thousands at once go in bounded steps, and none of them holds the server up."""

from __future__ import annotations

import pytest

from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.settlements import Bury, Complete, Retry
from tests.broker.helpers import ERROR, HOUR, claim, now, record
from tests.redis.meter import Meter

pytestmark = [pytest.mark.leaves_keys(reason="tens of thousands of keys"), pytest.mark.timeout(120)]

#: Milliseconds that one call may hold the server.
BOUND = 50


@pytest.fixture
def broker(redis_server):
    broker = Broker(redis_server.client())
    claim(broker)
    yield broker
    broker.client.flushall()
    broker.client.close()


@pytest.fixture
def meter(redis_server, broker):
    return Meter(broker, redis_server.process.pid)


def fill(broker, count, **fields):
    answers = broker.enqueue([record(**fields) for _ in range(count)])
    return [answer.id for answer in answers]


def claim_all(broker, at_once=1000):
    leases = []
    while found := claim(broker, at_once, lease_ms=HOUR).leases:
        leases += found
    return leases


def in_pages(items, size=1000):
    return (items[start : start + size] for start in range(0, len(items), size))


def test_c40_20_000_are_enqueued_buried_requeued_and_discarded(broker, meter):
    records = [record() for _ in range(20_000)]
    with meter.measured() as costs:
        assert {answer.word for answer in broker.enqueue(records)} == {"STORED"}
        leases = claim_all(broker)
        for page in in_pages(leases):
            broker.exchange([Bury(lease, ERROR) for lease in page], None)
        dead = list(Inspector(broker).listing("q", "dead"))
        assert sorted(record_id for record_id, _ in dead) == [one.id for one in records]
        assert set(broker.requeue([(record_id, died_at, 0) for record_id, died_at in dead])) == {"DONE"}
        assert broker.client.zcard(broker.keys.ready("q")) == 20_000
        for _ in range(5):
            page = claim(broker, 1000, lease_ms=HOUR).leases
            broker.exchange([Complete(lease, b'{"result":1}') for lease in page], None)
        for _ in range(5):
            page = claim(broker, 1000, lease_ms=HOUR).leases
            broker.exchange([Bury(lease, ERROR) for lease in page], None)
        assert set(broker.discard(list(Inspector(broker).listing("q", "dead")))) == {"DONE"}
    assert max(costs) < BOUND


def test_c40_30_000_due_in_one_millisecond_are_claimed_and_when_they_lapse_reaped(broker, meter):
    ids = fill(broker, 30_000, at_ms=now(broker) + HOUR)
    moment = now(broker) - 1000
    for page in in_pages(ids):
        broker.client.zadd(broker.keys.scheduled("q"), dict.fromkeys(page, moment))
    claimed = []
    with meter.measured() as costs:
        while len(claimed) < 30_000:
            found = claim(broker, 500, lease_ms=HOUR)
            assert len(found.leases) == 500
            assert found.next_due_ms in (0, None)
            claimed += [lease.id for lease in found.leases]
    assert sorted(claimed) == sorted(ids)
    for page in in_pages(ids):
        broker.client.zadd(broker.keys.leased("q"), dict.fromkeys(page, moment))
    with meter.measured() as reaping:
        while found := broker.expired(["q"], 1000).leases:
            words, _ = broker.exchange([Retry(lease, HOUR, ERROR, lapsed=True) for lease in found], None)
            assert set(words) == {"DONE"}
    assert broker.client.zcard(broker.keys.scheduled("q")) == 30_000
    assert broker.expired(["q"]).next_lapse_ms is None
    assert max(costs + reaping) < BOUND


def test_c40_thousands_are_cancelled_renewed_and_read_in_bounded_steps(broker, meter):
    ids = fill(broker, 5000, key=None)
    leases = claim(broker, 1000).leases
    with meter.measured() as costs:
        assert set(broker.renew([(lease.id, "q", lease.token) for lease in leases], HOUR)) == {"OK"}
        words = broker.cancel(ids)
        found = Inspector(broker).records([*ids, *(f"NOBODY{index}" for index in range(1000))])
    assert [words.count(word) for word in ("DONE", "ASKED")] == [4000, 1000]
    assert sum(one is None for one in found) == 1000
    assert max(costs) < BOUND


def test_c40_a_thousand_with_keys_and_each_sooner_than_the_last_is_the_costliest_enqueue(broker, meter):
    records = [record(key=f"key-{index}", key_ttl_ms=HOUR, delay_ms=10**9 - index) for index in range(1000)]
    with meter.measured() as costs:
        broker.enqueue(records)
        answers = broker.enqueue([record(key=one.key, key_ttl_ms=HOUR) for one in records])
    assert {answer.word for answer in answers} == {"TAKEN"}
    assert max(costs) < BOUND


def test_c40_a_thousand_ids_that_are_nowhere_hold_up_no_server_of_many_queues(broker, meter):
    for index in range(100):
        broker.enqueue([record(f"queue-{index}")])
    broker.cancel(["NOBODY"])
    with meter.measured() as costs:
        words = broker.cancel([f"NOBODY{index}" for index in range(1000)])
    assert set(words) == {"MISSING"}
    assert max(costs) < BOUND
