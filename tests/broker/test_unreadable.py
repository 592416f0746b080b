"""Records whose head or envelope can't be read: they can be buried, and their bytes stay."""

from __future__ import annotations

import pytest

from django_taskq.broker.exceptions import UnknownVersion, UnreadableRecord
from django_taskq.broker.records import State
from tests.broker.helpers import (
    ERROR,
    HOUR,
    bury_one,
    claim,
    claim_ids,
    lapse,
    lease_one,
    make_due,
    places,
    put,
    read,
    score,
)

HEADS = [b"\n\n{}", b"garbage", b"\x00\xff\xfe", b"12 x q\n\n{}", b"1 2\n\n{}", b"1 2 q\nno empty line", b"{}" * 2000]


def replace(broker, record_id, task):
    broker.client.set(broker.keys.task(record_id), task)


@pytest.mark.parametrize("task", HEADS)
class TestUnreadableHead:
    def test_it_is_claimed_and_buried_with_its_bytes(self, broker, task):
        bad, good = put(broker, 2)
        replace(broker, bad, task)
        first, second = claim(broker, 2).leases
        assert (first.id, second.id) == (bad, good)
        with pytest.raises(UnreadableRecord):
            first.envelope
        assert second.envelope.name == "app.tasks.work"
        assert broker.bury(first, ERROR) == "DONE"
        found = read(broker, bad)
        assert (found.state, found.task, places(broker, bad)) == (State.DEAD, task, ["dead"])
        with pytest.raises(UnreadableRecord):
            found.envelope

    def test_it_counts_as_of_priority_zero_when_it_is_due(self, broker, task):
        (record_id,) = put(broker, delay_ms=HOUR, priority=50)
        replace(broker, record_id, task)
        make_due(broker, record_id)
        due = score(broker, record_id, "scheduled")
        assert claim_ids(broker, 0) == []
        assert claim_ids(broker, 1) == [record_id]
        assert int(broker.client.hget(broker.keys.run(record_id), "score")) == due

    def test_it_can_be_retried_released_and_reaped(self, broker, task):
        lease = lease_one(broker)
        replace(broker, lease.id, task)
        assert broker.release(lease) == "DONE"
        (lease,) = claim(broker).leases
        lapse(broker, lease)
        assert broker.expired(["q"]).leases[0].task == task
        assert broker.retry(lease, 0, ERROR, lapsed=True) == "DONE"
        assert broker.complete(claim(broker).leases[0], b"{}") == "DONE"

    def test_it_can_be_requeued_discarded_promoted_and_cancelled(self, broker, task):
        record_id, died_at = bury_one(broker)
        replace(broker, record_id, task)
        assert broker.requeue([(record_id, died_at, HOUR)]) == ["DONE"]
        assert places(broker, record_id) == ["scheduled"]
        assert broker.promote(record_id) == "DONE"
        assert broker.cancel([record_id]) == ["DONE"]
        assert places(broker, record_id) == []
        record_id, died_at = bury_one(broker)
        replace(broker, record_id, task)
        assert broker.discard([(record_id, died_at)]) == ["DONE"]


@pytest.mark.parametrize("envelope", [b"", b"{", b"[]", b"null", b'{"args":[]}', b"\xff", b'{"name":""}', b"[" * 9999])
def test_an_unreadable_envelope_is_claimed_and_kept(broker, envelope):
    (record_id,) = put(broker, envelope=envelope, priority=3)
    (lease,) = claim(broker).leases
    assert lease.head.priority == 3
    with pytest.raises(UnreadableRecord):
        lease.envelope
    broker.bury(lease, ERROR)
    assert read(broker, record_id).envelope_bytes == envelope


def test_a_newer_version_is_told_from_what_is_unreadable(broker):
    put(broker, envelope=b'{"v":2,"name":"x"}')
    with pytest.raises(UnknownVersion):
        claim(broker).leases[0].envelope


def test_a_line_of_the_head_that_nobody_knows_is_left_alone(broker):
    (record_id,) = put(broker)
    task = b"1700000000000 7 q\nunique 5 abc\nkey 9 k\nbatch x\n\n" + b'{"name":"x"}'
    replace(broker, record_id, task)
    (lease,) = claim(broker).leases
    assert (lease.head.priority, lease.head.key, lease.head.key_ttl_ms) == (7, "k", 9)
    broker.complete(lease, b"{}")
    assert read(broker, record_id).task == task
