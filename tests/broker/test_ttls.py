"""Invariant 6: undelivered work never expires, and what has ended does."""

from __future__ import annotations

import pytest
import redis

from django_taskq.broker.settlements import Bury, Retry
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    bury_one,
    claim,
    has_ttl,
    lapse,
    lease_one,
    put,
    record,
    ttl,
)

DAY = 24 * HOUR
KINDS = ("task", "run", "log")


def ttls(broker, record_id):
    return {kind: ttl(broker, getattr(broker.keys, kind)(record_id)) for kind in KINDS}


def go(broker, record_id, **expected):
    """Tell whether the keys of a record go after these ms."""
    return {kind: has_ttl(broker, getattr(broker.keys, kind)(record_id), ms) for kind, ms in expected.items()} == (
        dict.fromkeys(expected, True)
    )


def test_nothing_of_undelivered_work_expires(broker):
    put(broker, key="ready")
    put(broker, key="scheduled", delay_ms=HOUR)
    retried, _ = lease_one(broker, "a", key="retried"), lease_one(broker, "b", key="leased")
    broker.retry(retried, HOUR, ERROR)
    bury_one(broker, "c", key="dead")
    lapse(broker, lease_one(broker, "d", key="lapsed"))
    broker.expired(["d"])
    keys = [key.decode() for key in broker.client.scan_iter()]
    kept = {key for key in keys if ttl(broker, key) is None}
    assert {key for key in keys if key not in kept} == {broker.keys.claim("worker.child")}


@pytest.mark.parametrize(("result_ttl", "kept"), [(0, MINUTE), (1000, MINUTE), (2 * HOUR, 2 * HOUR)])
def test_a_succeeded_record_stays_for_its_result_s_ttl_but_not_less_than_a_minute(broker, result_ttl, kept):
    lease = lease_one(broker)
    broker.complete(lease, b"{}", result_ttl)
    assert go(broker, lease.id, task=kept, run=kept, log=kept)


def test_a_longer_key_ttl_keeps_the_record_but_not_its_result(broker):
    lease = lease_one(broker, key="k", key_ttl_ms=3 * HOUR)
    broker.complete(lease, b"{}", 2 * HOUR)
    assert go(broker, lease.id, task=3 * HOUR, run=3 * HOUR, log=2 * HOUR)


def test_a_record_with_a_row_stays_a_day(broker):
    lease = lease_one(broker, record_alias="default")
    broker.complete(lease, b"{}", 1000)
    assert go(broker, lease.id, task=DAY, run=DAY, log=MINUTE)


@pytest.mark.parametrize("way", ["waiting", "retry", "bury", "release", "discard"])
def test_a_cancelled_record_stays_for_its_ttl(broker, way):
    lease = lease_one(broker)
    if way == "waiting":
        broker.retry(lease, HOUR, ERROR)
        broker.cancel([lease.id], 2 * HOUR)
    elif way == "discard":
        broker.bury(lease, ERROR)
        died_at = int(broker.client.zscore(broker.keys.dead("q"), lease.id))
        broker.discard([(lease.id, died_at)], 2 * HOUR)
    else:
        broker.client.rpush(broker.keys.log(lease.id), "1 1 1 1 c {}")
        broker.cancel([lease.id])
        end = {"retry": lambda: broker.retry(lease, 0, ERROR), "bury": lambda: broker.bury(lease, ERROR)}
        end.get(way, lambda: broker.release(lease))()
    kept = 2 * HOUR if way in ("waiting", "discard") else DAY
    assert go(broker, lease.id, task=kept, run=kept, log=kept)


def test_task_and_run_go_in_the_same_millisecond(broker):
    lease = lease_one(broker)
    broker.complete(lease, b"{}", HOUR)
    names = broker.keys.task(lease.id), broker.keys.run(lease.id)
    try:
        task, run = (broker.client.pexpiretime(name) for name in names)
    except redis.ResponseError:
        pytest.skip("PEXPIRETIME is there from Redis 7")
    assert task == run


def test_a_failed_attempt_leaves_no_ttl_behind(broker):
    lease = lease_one(broker)
    broker.retry(lease, 0, ERROR)
    assert ttls(broker, lease.id) == dict.fromkeys(KINDS)


def test_a_requeued_record_has_no_ttl(broker):
    record_id, died_at = bury_one(broker, key="k", key_ttl_ms=HOUR)
    broker.requeue([(record_id, died_at, 0)])
    assert ttls(broker, record_id) == dict.fromkeys(KINDS)
    assert ttl(broker, broker.keys.idem("k")) is None


def test_a_resend_does_not_extend_or_end_a_ttl(broker):
    new = record()
    broker.enqueue([new])
    broker.complete(claim(broker).leases[0], b"{}", HOUR)
    broker.enqueue([new])
    assert go(broker, new.id, task=HOUR, run=HOUR, log=HOUR)


def test_an_ended_record_that_expired_can_be_enqueued_anew(broker):
    new = record()
    broker.enqueue([new])
    broker.complete(claim(broker).leases[0], b"{}", HOUR)
    for kind in KINDS:
        broker.client.delete(getattr(broker.keys, kind)(new.id))
    assert broker.enqueue([new])[0].word == "STORED"


@pytest.mark.parametrize("far", [10**16, 10**17, 10**30, 10**400], ids=["16", "17", "30", "400"])
def test_a_ttl_that_redis_would_refuse_is_cut_to_one_that_it_takes(broker, far):
    for key_ttl, result_ttl in ((HOUR, far), (far, HOUR)):
        lease = lease_one(broker, key="k", key_ttl_ms=key_ttl)
        assert broker.complete(lease, b"{}", result_ttl) == "DONE"
        assert ttls(broker, lease.id)["task"] > 10**12
        assert ttl(broker, broker.keys.idem("k")) is not None
        broker.client.delete(broker.keys.idem("k"))
    for end in (
        lambda lease: Retry(lease, 0, ERROR, result_ttl_ms=far),
        lambda lease: Bury(lease, ERROR, result_ttl_ms=far),
    ):
        lease = lease_one(broker)
        broker.cancel([lease.id])
        assert broker.exchange([end(lease)], None)[0] == ["CANCELLED"]
        assert ttls(broker, lease.id)["task"] > 10**12
    record_id, died_at = bury_one(broker)
    assert broker.discard([(record_id, died_at)], far) == ["DONE"]
    assert ttls(broker, record_id)["run"] > 10**12
