from __future__ import annotations

import pytest

from django_taskq.broker.records import State
from django_taskq.broker.settlements import Release
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    bury_one,
    claim,
    claim_ids,
    dump,
    lapse,
    lease_one,
    now,
    places,
    put,
    read,
    score,
    settle,
)


def test_a_released_record_is_as_it_was_before_the_claim(broker):
    first, second = put(broker, 2, priority=3)
    place = score(broker, first, "ready")
    (lease,) = claim(broker).leases
    assert broker.release(lease) == "DONE"
    assert score(broker, first, "ready") == place
    found = read(broker, first)
    assert (found.state, found.attempts, found.history) == (State.WAITING, 0, ())
    assert claim_ids(broker, 2) == [first, second]


def test_its_old_place_is_exact_for_large_scores(broker):
    for priority in (-100, 100):
        (record_id,) = put(broker, priority=priority)
        place = score(broker, record_id, "ready")
        (lease,) = claim(broker).leases
        broker.release(lease)
        assert score(broker, record_id, "ready") == place
        claim(broker)


def test_a_delay_lets_it_wait(broker):
    lease = lease_one(broker, priority=3)
    assert broker.release(lease, delay_ms=HOUR) == "DONE"
    assert places(broker, lease.id) == ["scheduled"]
    assert now(broker) + HOUR - MINUTE < score(broker, lease.id, "scheduled") <= now(broker) + HOUR
    assert read(broker, lease.id).attempts == 0


def test_keep_counts_the_attempt_and_notes_it(broker):
    lease = lease_one(broker)
    broker.exchange([Release(lease, keep=True, log_json=ERROR)], None)
    found = read(broker, lease.id)
    assert found.attempts == 1
    assert [attempt.error.message for attempt in found.history] == ["no"]
    assert claim(broker).leases[0].attempt == 2


def test_a_floor_raises_the_token(broker):
    lease = lease_one(broker)
    floor = lease.token + HOUR
    assert broker.release(lease, floor=floor) == "DONE"
    assert read(broker, lease.id).token == floor
    assert claim(broker).leases[0].token == floor + 1


def test_a_lower_floor_changes_nothing(broker):
    lease = lease_one(broker)
    broker.release(lease, floor=5)
    assert read(broker, lease.id).token == lease.token


def test_unknown_notes_since_when_and_counts(broker):
    lease = lease_one(broker)
    broker.release(lease, unknown=True)
    key = broker.keys.run(lease.id)
    since = int(broker.client.hget(key, "unknown_since"))
    assert lease.claimed_at <= since <= now(broker)
    broker.client.hset(key, "unknown_since", since - HOUR)
    (again,) = claim(broker).leases
    assert (again.releases, again.attempt) == (1, 1)
    assert HOUR <= again.unknown_ms < HOUR + MINUTE
    broker.release(again, unknown=True)
    assert int(broker.client.hget(key, "unknown_since")) == since - HOUR
    assert claim(broker).leases[0].releases == 2


def test_unknown_since_a_moment_that_the_clock_has_not_reached_is_no_time_at_all(broker):
    lease = lease_one(broker)
    broker.release(lease, unknown=True)
    broker.client.hset(broker.keys.run(lease.id), "unknown_since", now(broker) + HOUR)
    assert claim(broker).leases[0].unknown_ms == 0


def test_a_plain_release_neither_counts_nor_forgets_that_it_was_unknown(broker):
    broker.release(lease_one(broker), unknown=True)
    broker.release(claim(broker).leases[0])
    (lease,) = claim(broker).leases
    assert lease.releases == 1
    assert lease.unknown_ms is not None


@pytest.mark.parametrize("end", ["complete", "retry", "bury"])
def test_any_other_end_forgets_that_it_was_unknown(broker, end):
    broker.release(lease_one(broker), unknown=True)
    (lease,) = claim(broker).leases
    settle(broker, end, lease)
    assert broker.client.hmget(broker.keys.run(lease.id), "releases", "unknown_since") == [None, None]


def test_an_attempt_that_was_given_back_before_its_cancel_is_not_counted(broker):
    record_id, died_at = bury_one(broker)
    broker.requeue([(record_id, died_at, 0)])
    (lease,) = claim(broker).leases
    broker.cancel([record_id])
    assert broker.release(lease) == "CANCELLED"
    found = read(broker, record_id)
    assert (found.attempts, found.worker_ids) == (0, [])


def test_a_repeated_release_changes_nothing_even_after_the_next_claim(broker):
    lease = lease_one(broker)
    broker.release(lease)
    claim(broker, child="other.child")
    before = dump(broker)
    assert broker.release(lease) == "LEASE_LOST"
    assert dump(broker) == before


def test_a_record_whose_place_was_lost_goes_behind_those_of_its_priority(broker):
    lease = lease_one(broker, priority=2)
    broker.client.hdel(broker.keys.run(lease.id), "score")
    lapse(broker, lease)
    assert broker.release(lease) == "DONE"
    assert now(broker) - MINUTE < score(broker, lease.id, "ready") + 2 * 10**13 <= now(broker)
