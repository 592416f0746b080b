from __future__ import annotations

import pytest

from django_taskq.broker.records import State
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    bury_one,
    claim,
    claim_ids,
    dump,
    has_ttl,
    lapse,
    lease_one,
    places,
    put,
    read,
    record,
    settle,
)


@pytest.mark.parametrize("delay", [0, HOUR])
def test_a_waiting_record_is_cancelled_and_never_runs(broker, delay):
    (record_id,) = put(broker, delay_ms=delay)
    assert broker.cancel([record_id], result_ttl_ms=2 * HOUR) == ["DONE"]
    found = read(broker, record_id)
    assert (found.state, found.attempts) == (State.CANCELLED, 0)
    assert found.finished_at is not None
    assert places(broker, record_id) == []
    assert claim_ids(broker) == []
    assert has_ttl(broker, broker.keys.task(record_id), 2 * HOUR)
    assert has_ttl(broker, broker.keys.run(record_id), 2 * HOUR)


def test_a_record_that_was_tried_before_can_be_cancelled(broker):
    lease = lease_one(broker)
    broker.retry(lease, HOUR, ERROR)
    assert broker.cancel([lease.id]) == ["DONE"]
    assert read(broker, lease.id).attempts == 1


def test_a_leased_record_is_asked(broker):
    lease = lease_one(broker)
    assert broker.cancel([lease.id]) == ["ASKED"]
    found = read(broker, lease.id)
    assert (found.state, found.cancel_requested) == (State.LEASED, True)
    assert broker.cancel([lease.id]) == ["ASKED"]


@pytest.mark.parametrize("kind", ["retry", "bury", "release"])
def test_an_accepted_cancel_stays_when_the_lease_lapses(broker, kind):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    lapse(broker, lease)
    assert settle(broker, kind, broker.expired(["q"]).leases[0]) == "CANCELLED"
    assert claim_ids(broker) == []


def test_a_cancelled_record_keeps_the_attempt_that_ended_it(broker):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    broker.retry(lease, 0, ERROR)
    found = read(broker, lease.id)
    assert (found.attempts, [attempt.attempt for attempt in found.history]) == (1, [1])


def test_a_cancelled_record_keeps_its_ttl_when_it_is_cancelled_again(broker):
    (record_id,) = put(broker)
    broker.cancel([record_id], HOUR)
    before = dump(broker)
    assert broker.cancel([record_id], 24 * HOUR) == ["ALREADY"]
    assert dump(broker) == before
    assert has_ttl(broker, broker.keys.task(record_id), HOUR)


def test_what_has_ended_is_left_alone(broker):
    lease = lease_one(broker)
    broker.complete(lease, b"{}")
    dead, _ = bury_one(broker)
    before = dump(broker)
    assert broker.cancel([lease.id, dead]) == ["ENDED", "ENDED"]
    assert dump(broker) == before


def test_what_is_not_there_is_missing_and_not_made(broker):
    assert broker.cancel(["NOBODY"]) == ["MISSING"]
    assert dump(broker) == {}


def test_a_duplicate_s_id_cancels_nothing(broker):
    first, duplicate = record(key="k"), record(key="k")
    broker.enqueue([first, duplicate])
    assert broker.cancel([duplicate.id]) == ["MISSING"]
    assert read(broker, first.id).state is State.WAITING


def test_more_than_a_thousand_are_answered_in_their_order(broker):
    ids = put(broker, 1002)
    ids[5] = ids[1001] = "NOBODY"
    words = broker.cancel(ids)
    assert {index: word for index, word in enumerate(words) if word != "DONE"} == {5: "MISSING", 1001: "MISSING"}


def test_nothing_to_cancel_asks_nothing(broker):
    broker.client.close()
    assert broker.cancel([]) == []


def test_a_record_that_lost_its_place_is_cancelled_all_the_same(broker):
    (record_id,) = put(broker)
    broker.client.delete(broker.keys.ready("q"))
    assert broker.cancel([record_id]) == ["DONE"]
    assert read(broker, record_id).state is State.CANCELLED


class TestPromote:
    def test_a_scheduled_record_is_ready_now(self, broker):
        first = put(broker)[0]
        (record_id,) = put(broker, delay_ms=HOUR, priority=1)
        assert broker.promote(record_id) == "DONE"
        assert places(broker, record_id) == ["ready"]
        assert claim_ids(broker, 2) == [record_id, first]

    def test_it_stands_behind_those_of_its_priority_that_were_ready(self, broker):
        (delayed,) = put(broker, delay_ms=MINUTE)
        (ready,) = put(broker)
        broker.client.zincrby(broker.keys.ready("q"), -5, ready)
        broker.promote(delayed)
        assert claim_ids(broker, 2) == [ready, delayed]

    @pytest.mark.parametrize("state", ["ready", "leased", "dead", "succeeded", "nowhere"])
    def test_what_is_not_scheduled_is_missing(self, broker, state):
        (record_id,) = put(broker) if state != "nowhere" else ["NOBODY"]
        if state in ("leased", "dead", "succeeded"):
            (lease,) = claim(broker).leases
            {"dead": broker.bury, "succeeded": broker.complete}.get(state, lambda *_: None)(lease, b"{}")
        before = dump(broker)
        assert broker.promote(record_id) == "MISSING"
        assert dump(broker) == before
