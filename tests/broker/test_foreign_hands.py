"""Ids and numbers that no client writes: what a foreign hand left in a set or a run hash stops nobody behind it."""

from __future__ import annotations

import pytest
import redis

from django_taskq.broker.inspector import Inspector
from django_taskq.broker.listing import PLACES, MergedListing
from django_taskq.broker.records import MOST_NAMELESS, State
from django_taskq.broker.scripts import load
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    SETTLEMENTS,
    claim,
    claim_ids,
    lapse,
    lease_one,
    make_due,
    places,
    put,
    read,
    record,
    settle,
)

STRANGE_IDS = [b"\xff\xfe", b"x" * 64, b"a b", b"", b"a-b", "ü".encode()]
DAMAGED = ["abc", "", "-1", "1.5", "nan", "1" * 20]


def put_strange(broker, place, member, score=0.0):
    """Add an id to a set, with a good body."""
    (model,) = put(broker, queue="model")
    body = broker.client.get(broker.keys.task(model)).replace(b" model\n", b" q\n")
    broker.cancel([model])
    broker.client.set(b"{taskq}:task:" + member, body)
    broker.client.zadd(getattr(broker.keys, place)("q"), {member: score})


def is_gone(broker, place, member):
    """Tell whether it was taken out, and its body goes within a minute."""
    client = broker.client
    left = client.pttl(b"{taskq}:task:" + member)
    return client.zscore(getattr(broker.keys, place)("q"), member) is None and 0 < left <= MINUTE


@pytest.mark.parametrize("member", STRANGE_IDS, ids=ascii)
class TestAStrangeId:
    def test_a_claim_takes_the_ones_behind_it(self, broker, member):
        put_strange(broker, "ready", member)
        (good,) = put(broker)
        assert claim_ids(broker, 2) == [good]
        assert is_gone(broker, "ready", member)

    def test_a_promotion_goes_on_behind_it(self, broker, member):
        put_strange(broker, "scheduled", member)
        (good,) = put(broker, delay_ms=HOUR)
        make_due(broker, good)
        assert claim_ids(broker, 2) == [good]
        assert is_gone(broker, "scheduled", member)

    def test_a_reaper_reads_the_leases_behind_it(self, broker, member):
        put_strange(broker, "leased", member)
        broker.client.hset(b"{taskq}:run:" + member, mapping={"state": "leased", "token": 5, "attempts": 1})
        lease = lease_one(broker)
        lapse(broker, lease)
        assert [one.id for one in broker.expired(["q"]).leases] == [lease.id]
        assert is_gone(broker, "leased", member)

    @pytest.mark.parametrize("place", PLACES)
    def test_a_reader_shows_it_among_the_others(self, broker, member, place):
        put_strange(broker, place, member, 5.0)
        shown = member.decode(errors="replace")
        inspector = Inspector(broker)
        assert list(inspector.listing("q", place)) == [(shown, 5)]
        assert [(one.id, one.score) for one in MergedListing(broker, place, ["q"]).page(0, 5)] == [(shown, 5)]
        assert getattr(inspector.counts(["q"])["q"], place) == 1
        inspector.records([shown])
        inspector.summaries([shown])
        broker.client.delete(getattr(broker.keys, place)("q"), b"{taskq}:task:" + member)

    def test_no_other_client_can_enqueue_it(self, broker, member):
        keys = [broker.keys.queues]
        with pytest.raises(redis.ResponseError, match="ID must be"):
            broker.client.eval(load("enqueue").text, 1, *keys, member, "q", 0, 0, 0, "", "{}")


@pytest.mark.parametrize("name", [b"\xff", b"a:b", b"{x}", b"", b"a\nb", b"x" * 101], ids=ascii)
def test_a_strange_queue_is_passed_over(broker, name):
    lease = lease_one(broker)
    lapse(broker, lease)
    broker.client.sadd(broker.keys.queues, name)
    inspector = Inspector(broker)
    assert inspector.queues() == ["q"]
    assert list(inspector.counts()) == ["q"]
    assert [one.id for one in broker.expired(inspector.queues()).leases] == [lease.id]


def test_a_strange_worker_is_shown(broker):
    broker.heartbeat("w", {"pid": 1}, MINUTE)
    broker.client.zadd(broker.keys.workers, {b"\xff": 1})
    broker.client.hset(broker.keys.worker("w"), b"\xfe", b"\xfd")
    assert [one["name"] for one in Inspector(broker).workers()] == ["w"]


def test_an_alias_that_leads_nowhere_is_no_record(broker):
    broker.client.set(broker.keys.task("A"), b"alias \xff\xfe", px=MINUTE)
    assert Inspector(broker).record("A") is None


@pytest.mark.parametrize("value", DAMAGED)
@pytest.mark.parametrize("field", ["attempts", "token", "releases", "unknown_since", "started_at"])
class TestADamagedNumber:
    def test_a_claim_takes_it_for_lost(self, broker, field, value):
        bad, good = put(broker, 2)
        broker.client.hset(broker.keys.run(bad), field, value)
        leases = claim(broker, 2).leases
        assert [(lease.id, lease.attempt, lease.releases, lease.unknown_ms) for lease in leases] == [
            (bad, 1, 0, None), (good, 1, 0, None),
        ]  # fmt: skip

    def test_a_reaper_reads_it_and_the_ones_behind_it(self, broker, field, value):
        bad, good = lease_one(broker), lease_one(broker)
        broker.client.hset(broker.keys.run(bad.id), field, value)
        lapse(broker, bad, ago=MINUTE)
        lapse(broker, good)
        # A lease whose token is lost waits again.
        expected = [good.id] if field == "token" else [bad.id, good.id]
        assert [lease.id for lease in broker.expired(["q"]).leases] == expected
        assert places(broker, bad.id) == (["ready"] if field == "token" else ["leased"])

    @pytest.mark.parametrize("kind", [*SETTLEMENTS, "unknown"])
    def test_a_settle_ends_it_unless_the_token_is_lost(self, broker, field, value, kind):
        bad, good = lease_one(broker), lease_one(broker)
        broker.client.hset(broker.keys.run(bad.id), field, value)
        if kind == "unknown":
            words = [broker.release(lease, 1000, unknown=True) for lease in (bad, good)]
        else:
            words = [settle(broker, kind, lease) for lease in (bad, good)]
        assert words == ["LEASE_LOST" if field == "token" else "DONE", "DONE"]

    def test_a_reader_meets_no_error(self, broker, field, value):
        (record_id,) = put(broker)
        broker.client.hset(broker.keys.run(record_id), field, value)
        assert read(broker, record_id).attempts == 0
        Inspector(broker).summaries([record_id])


@pytest.mark.parametrize("value", ["abc", "nan", ""])
def test_a_damaged_place_in_ready_loses_no_released_record(broker, value):
    lease = lease_one(broker)
    broker.client.hset(broker.keys.run(lease.id), "score", value)
    assert broker.release(lease) == "DONE"
    assert claim_ids(broker) == [lease.id]


def test_a_release_after_a_damaged_count_counts_from_one(broker):
    lease = lease_one(broker)
    broker.client.hset(broker.keys.run(lease.id), mapping={"releases": "abc", "unknown_since": "x"})
    broker.release(lease, unknown=True)
    (lease,) = claim(broker).leases
    assert (lease.releases, lease.attempt) == (1, 1)
    assert lease.unknown_ms is not None
    assert broker.bury(lease, ERROR) == "DONE"


def test_as_many_attempts_as_nobody_made_are_not_listed_one_by_one(broker):
    (record_id,) = put(broker)
    broker.client.hset(broker.keys.run(record_id), "attempts", "9" * 14)
    found = read(broker, record_id)
    assert (found.attempts, len(found.worker_ids)) == (99_999_999_999_999, MOST_NAMELESS)


@pytest.mark.parametrize("state", [b"paused", b"", b"\xff"])
class TestAStrangeState:
    def test_a_reader_shows_it_among_the_others(self, broker, state):
        bad, good = put(broker, 2)
        broker.client.hset(broker.keys.run(bad), "state", state)
        shown, other = Inspector(broker).records([bad, good])
        assert (shown.state, shown.state.is_known) == (state.decode(errors="replace"), False)
        assert (other.state, other.state.is_known) == (State.WAITING, True)

    def test_whoever_enqueues_hears_of_it(self, broker, state):
        ((holder,), other) = put(broker, key="k"), record(key="k")
        broker.client.hset(broker.keys.run(holder), "state", state)
        (answer,) = broker.enqueue([other])
        assert (answer.word, answer.id, answer.state) == ("TAKEN", holder, state.decode(errors="replace"))

    def test_it_is_told_among_those_of_others(self, broker, state):
        bad, good = put(broker, 2)
        broker.client.hset(broker.keys.run(bad), "state", state)
        assert broker.states([bad, good]) == [state.decode(errors="replace"), "waiting"]
