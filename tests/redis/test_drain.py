"""C38: when all is done and its time has passed, nothing is left but the constant keys."""

from __future__ import annotations

import pytest

from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.settlements import Bury, Complete, Release, Retry
from tests.broker.helpers import ERROR, HOUR, claim, now, record
from tests.leaks import PERMANENT, key_leaks
from tests.waiting import wait_until

RESULT = b'{"result":1}'


def store(broker, count, **fields):
    answers = broker.enqueue([record(**{"delay_ms": 0, **fields}) for _ in range(count)])
    return [answer.id for answer in answers]


def claimed(broker, count, queue="q"):
    leases = []
    while len(leases) < count:
        leases += claim(broker, 1000, queues=[queue], child=f"w.{len(leases)}", lease_ms=HOUR).leases
    return leases


def end(broker, leases, kind, *arguments):
    words, _ = broker.exchange([kind(lease, *arguments) for lease in leases], None)
    assert set(words) <= {"DONE", "CANCELLED"}


def dead_of(broker, queue):
    return list(Inspector(broker).listing(queue, "dead"))


def succeed(broker):
    store(broker, 4000)
    end(broker, claimed(broker, 4000), Complete, RESULT, 1000)


def retry_and_succeed(broker):
    store(broker, 3000, queue="retried")
    end(broker, claimed(broker, 3000, "retried"), Retry, 0, ERROR)
    end(broker, claimed(broker, 3000, "retried"), Release)
    end(broker, claimed(broker, 3000, "retried"), Complete, RESULT, 0)


def die_and_come_back(broker):
    store(broker, 2500, queue="dead")
    end(broker, claimed(broker, 2500, "dead"), Bury, ERROR)
    broker.requeue([(*pair, 0) for pair in dead_of(broker, "dead")])
    end(broker, claimed(broker, 2500, "dead"), Complete, RESULT)


def die_for_good(broker):
    broker.enqueue([record("dlq", key=f"dead-{index}", key_ttl_ms=HOUR) for index in range(2500)])
    end(broker, claimed(broker, 2500, "dlq"), Bury, ERROR)
    broker.discard(dead_of(broker, "dlq"))


def be_cancelled(broker):
    broker.cancel(store(broker, 1500, queue="cancelled", delay_ms=HOUR))
    ids = store(broker, 1500, queue="cancelled")
    leases = claimed(broker, 1500, "cancelled")
    broker.cancel(ids)
    end(broker, leases, Retry, 0, ERROR)


def be_duplicates(broker):
    broker.enqueue([record("keyed", key=f"key-{index % 1500}", key_ttl_ms=HOUR) for index in range(3000)])
    end(broker, claimed(broker, 1500, "keyed"), Complete, RESULT)
    broker.enqueue([record("keyed", key="key-1", key_ttl_ms=HOUR, record_alias="default")])


def crash_and_be_reaped(broker):
    store(broker, 1900, queue="crashed")
    leases = claimed(broker, 1900, "crashed")
    broker.client.zadd(broker.keys.leased("crashed"), {lease.id: now(broker) - 1 for lease in leases})
    while found := broker.expired(["crashed"], 1000).leases:
        broker.exchange([Retry(lease, 0, ERROR, lapsed=True) for lease in found], None)
    end(broker, claimed(broker, 1900, "crashed"), Complete, b"{}")


def lose_their_bodies(broker):
    ids = store(broker, 100, queue="lost")
    leases = claim(broker, 50, queues=["lost"]).leases
    broker.client.delete(*(broker.keys.task(one) for one in ids))
    for lease in leases:
        broker.complete(lease, b"{}")
    broker.cancel(ids)


PATHS = (
    succeed,
    retry_and_succeed,
    die_and_come_back,
    die_for_good,
    be_cancelled,
    be_duplicates,
    crash_and_be_reaped,
    lose_their_bodies,
)


@pytest.mark.timeout(120)
def test_c38_20_000_tasks_on_every_path_leave_only_the_constant_keys(redis_server):
    broker = Broker(redis_server.client())
    for path in PATHS:
        path(broker)
    for index in range(50):
        broker.heartbeat(f"worker-{index}", {"pid": index}, 1000)
    broker.client.zadd(broker.keys.workers, {f"worker-{index}": 1 for index in range(50)})
    broker.heartbeat("worker-0", {"pid": 0}, 60_000)

    assert key_leaks(broker.client) == []
    left = [key.decode() for key in broker.client.scan_iter(count=5000)]
    ending = [key for key in left if not PERMANENT.fullmatch(key)]
    assert len(ending) > 40_000
    for start in range(0, len(ending), 5000):
        with broker.client.pipeline(transaction=False) as pipeline:
            for key in ending[start : start + 5000]:
                pipeline.pexpire(key, 1)
            pipeline.execute()
    constant = {broker.keys.queues, broker.keys.workers}
    constant |= {broker.keys.wake(queue) for queue in Inspector(broker).queues()}
    wait_until(lambda: broker.client.dbsize() <= len(constant))
    assert {key.decode() for key in broker.client.scan_iter()} <= constant
    assert broker.client.zrange(broker.keys.workers, 0, -1) == [b"worker-0"]
    assert sum(broker.client.memory_usage(key) for key in broker.client.scan_iter()) < 5000
    broker.client.close()
