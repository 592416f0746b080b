"""Ids whose body is missing or of a wrong type: taken out by whoever meets them, and in nobody's way."""

from __future__ import annotations

import pytest

from django_taskq.broker.inspector import Inspector
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    Held,
    armed,
    bury_one,
    claim_ids,
    has_ttl,
    lapse,
    lease_one,
    make_due,
    now,
    places,
    put,
    record,
    settle,
)

DAMAGES = ["missing", "list", "hash", "run of a wrong type"]


def damage(broker, record_id, kind):
    client, key = broker.client, broker.keys.task(record_id)
    if kind == "run of a wrong type":
        client.delete(broker.keys.run(record_id))
        client.rpush(broker.keys.run(record_id), "x")
        return
    client.delete(key)
    if kind == "list":
        client.rpush(key, "x")
    elif kind == "hash":
        client.hset(key, "x", "y")


def gone(broker, record_id, queue="q"):
    """Tell whether it is in no set, and all that is left of it goes within a minute."""
    keys = broker.keys
    left = [
        key for key in (keys.task(record_id), keys.run(record_id), keys.log(record_id)) if broker.client.exists(key)
    ]
    return places(broker, record_id, queue) == [] and all(has_ttl(broker, key, MINUTE) for key in left)


@pytest.mark.parametrize("kind", DAMAGES)
class TestEachScript:
    def test_claim_passes_it_and_takes_the_ones_behind(self, broker, kind):
        first, second, third = put(broker, 3)
        damage(broker, first, kind)
        assert claim_ids(broker, 2) == [second, third]
        assert gone(broker, first)

    def test_claim_s_promotion_passes_it(self, broker, kind):
        bad, good = put(broker, 2, delay_ms=HOUR)
        damage(broker, bad, kind)
        make_due(broker, bad, good)
        assert claim_ids(broker, 2) == [good]
        assert gone(broker, bad)

    def test_expired_passes_it_and_reads_the_ones_behind(self, broker, kind):
        bad, good = lease_one(broker), lease_one(broker)
        damage(broker, bad.id, kind)
        lapse(broker, bad, ago=MINUTE)
        lapse(broker, good)
        assert [lease.id for lease in broker.expired(["q"]).leases] == [good.id]
        assert gone(broker, bad.id)

    def test_cancel_takes_it_out_of_a_waiting_set(self, broker, kind):
        for delay in (0, HOUR):
            (record_id,) = put(broker, delay_ms=delay)
            damage(broker, record_id, kind)
            assert broker.cancel([record_id]) == ["ORPHANED"]
            assert gone(broker, record_id)
            assert broker.cancel([record_id]) == ["MISSING"]

    @pytest.mark.parametrize("verb", ["requeue", "discard"])
    def test_requeue_and_discard_take_it_out(self, broker, kind, verb):
        record_id, died_at = bury_one(broker)
        other, other_died_at = bury_one(broker)
        damage(broker, record_id, kind)
        extra = (0,) if verb == "requeue" else ()
        words = getattr(broker, verb)([(record_id, died_at, *extra), (other, other_died_at, *extra)])
        assert words == ["ORPHANED", "DONE"]
        assert gone(broker, record_id)

    def test_a_reader_meets_no_error(self, broker, kind):
        (record_id,) = put(broker)
        damage(broker, record_id, kind)
        Inspector(broker).records([record_id])
        Inspector(broker).record(record_id)
        broker.cancel([record_id])

    def test_an_enqueue_of_its_id_stores_nothing_over_it(self, broker, kind):
        lease = lease_one(broker)
        broker.complete(lease, b"{}")
        damage(broker, lease.id, kind)
        assert broker.enqueue([record(id=lease.id)])[0].word == "EXISTS"
        for key in (broker.keys.task(lease.id), broker.keys.run(lease.id)):
            broker.client.pexpire(key, MINUTE)


@pytest.mark.parametrize("damaged", ["missing", "list", "hash"])
@pytest.mark.parametrize("kind", ["complete", "retry", "bury", "release"])
def test_a_settle_takes_it_out_and_settles_the_ones_beside_it(broker, kind, damaged):
    bad, good = lease_one(broker), lease_one(broker)
    damage(broker, bad.id, damaged)
    assert settle(broker, kind, bad) == "ORPHANED"
    assert settle(broker, kind, good) == "DONE"
    assert gone(broker, bad.id)
    assert broker.client.hget(broker.keys.run(bad.id), "state") == b"cancelled"


@pytest.mark.parametrize("damaged", ["missing", "list", "hash"])
def test_promote_takes_it_out(broker, damaged):
    (record_id,) = put(broker, delay_ms=HOUR)
    damage(broker, record_id, damaged)
    assert broker.promote(record_id) == "ORPHANED"
    assert gone(broker, record_id)


@pytest.mark.parametrize("kind", ["complete", "retry", "bury", "release"])
def test_a_run_of_a_wrong_type_is_a_lost_lease(broker, kind):
    lease = lease_one(broker)
    damage(broker, lease.id, "run of a wrong type")
    assert settle(broker, kind, lease) == "LEASE_LOST"
    assert broker.renew([(lease.id, "q", lease.token)], HOUR) == ["LOST"]
    lapse(broker, lease)
    broker.expired(["q"])
    assert gone(broker, lease.id)


@pytest.mark.parametrize("kind", ["retry", "bury", "complete"])
def test_a_log_of_a_wrong_type_stops_no_settle(broker, kind):
    lease = lease_one(broker)
    broker.client.set(broker.keys.log(lease.id), "x")
    assert settle(broker, kind, lease) == "DONE"
    broker.client.delete(broker.keys.log(lease.id))
    assert places(broker, lease.id) == {"retry": ["scheduled"], "bury": ["dead"], "complete": []}[kind]


def test_an_orphan_that_was_asked_to_cancel_is_not_read_as_leased(broker):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    damage(broker, lease.id, "missing")
    assert broker.renew([(lease.id, "q", lease.token)], HOUR) == ["CANCEL"]
    assert broker.retry(lease, 0, ERROR) == "ORPHANED"
    assert broker.retry(lease, 0, ERROR) == "CANCELLED"


def test_a_wrong_token_does_not_take_an_orphan_out(broker):
    lease = lease_one(broker)
    damage(broker, lease.id, "missing")
    assert settle(broker, "complete", Held(lease, token=1)) == "LEASE_LOST"
    assert places(broker, lease.id) == ["leased"]
    settle(broker, "complete", lease)


def test_thousands_of_orphans_are_taken_out_in_bounded_calls(broker):
    broker.client.zadd(broker.keys.ready("q"), {f"GONE{index}": index for index in range(1200)})
    (record_id,) = put(broker)
    for left in (701, 201):
        assert claim_ids(broker, 10) == []
        assert broker.client.zcard(broker.keys.ready("q")) == left
        assert armed(broker)
    assert claim_ids(broker, 10) == [record_id]


def test_orphans_do_not_delay_the_reaping_of_those_behind_them(broker):
    moment = now(broker)
    broker.client.zadd(broker.keys.leased("q"), {f"GONE{index}": moment - HOUR for index in range(150)})
    lease = lease_one(broker)
    lapse(broker, lease)
    first = broker.expired(["q"], limit=100)
    assert (list(first.leases), first.next_lapse_ms) == ([], 0)
    assert [one.id for one in broker.expired(["q"], limit=100).leases] == [lease.id]


def test_an_id_that_lost_its_body_and_is_sent_again_is_in_one_place(broker):
    for delay, resent in ((HOUR, 0), (0, HOUR)):
        new = record(delay_ms=delay)
        broker.enqueue([new])
        broker.client.delete(broker.keys.task(new.id))
        assert broker.enqueue([record(id=new.id, delay_ms=resent)])[0].word == "STORED"
        assert places(broker, new.id) == ["scheduled" if resent else "ready"]
