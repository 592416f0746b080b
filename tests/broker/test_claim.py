from __future__ import annotations

import time

import pytest

from django_taskq.broker.records import State
from tests.broker.helpers import (
    HOUR,
    MINUTE,
    Held,
    claim,
    claim_ids,
    dump,
    has_ttl,
    lease_one,
    make_due,
    now,
    places,
    put,
    read,
    record,
    request,
    score,
    settle,
)


def test_a_lease_holds_all_that_a_worker_needs(broker):
    new = record(priority=4, key="k", key_ttl_ms=5000, record_alias="default")
    (stored,) = broker.enqueue([new])
    before = time.monotonic()
    (lease,) = claim(broker, lease_ms=60_000).leases
    assert (lease.id, lease.queue, lease.attempt, lease.releases) == (new.id, "q", 1, 0)
    assert lease.unknown_ms is None
    assert lease.envelope_bytes == new.envelope
    head = lease.head
    assert (head.enqueued_at, head.priority, head.queue) == (stored.enqueued_at, 4, "q")
    assert (head.key, head.key_ttl_ms, head.record_alias) == ("k", 5000, "default")
    assert stored.enqueued_at <= lease.claimed_at <= now(broker)
    assert before + 60 <= lease.deadline <= time.monotonic() + 60


def test_a_claimed_record_is_leased_until_the_end_of_its_lease(broker):
    lease = lease_one(broker)
    assert places(broker, lease.id) == ["leased"]
    found = read(broker, lease.id)
    assert (found.state, found.attempts, found.token, found.worker) == (State.LEASED, 1, lease.token, "worker.child")
    assert found.started_at == found.last_attempted_at == lease.claimed_at
    assert found.lease_ends_at == lease.claimed_at + 30_000


def test_no_more_than_asked_is_leased(broker):
    ids = put(broker, 5)
    assert claim_ids(broker, 3) == ids[:3]
    assert claim_ids(broker, 3) == ids[3:]
    assert claim_ids(broker, 3) == []


def test_nothing_is_leased_for_a_count_of_none(broker):
    put(broker)
    assert claim_ids(broker, 0) == []


def test_queues_are_emptied_in_strict_order(broker):
    (later,) = put(broker, queue="b", priority=100)
    first = put(broker, 2, queue="a", priority=-100)
    assert claim_ids(broker, 2, queues=["a", "b"]) == first
    assert claim_ids(broker, 2, queues=["a", "b"]) == [later]


def test_only_the_queues_asked_for_are_claimed(broker):
    put(broker, queue="a")
    assert claim_ids(broker, 5, queues=["b"]) == []


def test_the_first_token_is_the_moment_of_the_claim(broker):
    lease = lease_one(broker)
    assert lease.token == lease.claimed_at


def test_a_token_grows_even_when_the_clock_stands_behind_it(broker):
    lease = lease_one(broker)
    ahead = lease.token + HOUR
    broker.client.hset(broker.keys.run(lease.id), "token", ahead)
    broker.release(Held(lease, token=ahead))
    assert [one.token for one in claim(broker).leases] == [ahead + 1]


def test_each_claim_counts_an_attempt(broker):
    lease = lease_one(broker)
    broker.retry(lease, 0, b"{}")
    (again,) = claim(broker).leases
    assert again.attempt == 2
    assert again.token > lease.token
    assert read(broker, lease.id).started_at == lease.claimed_at


def test_a_repeated_claim_gets_the_same_leases(broker):
    put(broker, 3, queue="a b")
    wanted = request(2, ["a b"])
    first, second = broker.claim(wanted), broker.claim(wanted)
    assert [(one.id, one.token, one.attempt) for one in first.leases] == [
        (one.id, one.token, one.attempt) for one in second.leases
    ]
    assert second.leases[0].task == first.leases[0].task


def test_a_repeated_claim_lets_the_leases_begin_anew(broker):
    put(broker)
    wanted = request(lease_ms=60_000)
    (lease,) = broker.claim(wanted).leases
    broker.client.zadd(broker.keys.leased("q"), {lease.id: 5})
    (again,) = broker.claim(wanted).leases
    assert score(broker, lease.id, "leased") == again.claimed_at + 60_000
    assert again.deadline >= lease.deadline


@pytest.mark.parametrize("end", ["complete", "retry", "bury", "release", "taken"])
def test_a_repeated_claim_leaves_out_what_is_no_longer_held(broker, end):
    put(broker, 2)
    wanted = request(2)
    kept, gone = broker.claim(wanted).leases
    if end == "taken":
        broker.release(gone)
        assert claim_ids(broker, child="other.child") == [gone.id]
    else:
        settle(broker, end, gone)
    again = broker.claim(wanted).leases
    assert [(one.id, one.token) for one in again] == [(kept.id, kept.token)]


def test_a_claim_with_a_smaller_nonce_is_stale_and_changes_nothing(broker):
    put(broker, 2)
    broker.claim(request(nonce=7))
    before = dump(broker)
    late = broker.claim(request(nonce=6))
    assert (late.stale, list(late.leases)) == (True, [])
    assert dump(broker) == before


def test_nonces_are_compared_as_numbers(broker):
    ids = put(broker, 2)
    broker.claim(request(nonce=9))
    assert [lease.id for lease in broker.claim(request(nonce=10)).leases] == ids[1:]


def test_children_have_journals_of_their_own(broker):
    ids = put(broker, 2)
    broker.claim(request(nonce=9, child="w.a"))
    assert [lease.id for lease in broker.claim(request(nonce=1, child="w.b")).leases] == ids[1:]


def test_the_supervisor_gets_a_dead_child_s_leases_and_fences_off_its_claims(broker):
    ids = put(broker, 3)
    broker.claim(request(2, nonce=1))
    assert [lease.id for lease in broker.claim(request(0, nonce=1)).leases] == ids[:2]
    assert list(broker.claim(request(0, nonce=2)).leases) == []
    late = broker.claim(request(2, nonce=2))  # was still on its way
    assert list(late.leases) == []
    assert places(broker, ids[2]) == ["ready"]


def test_the_journal_goes_a_day_after_the_last_claim(broker):
    lease_one(broker)
    assert has_ttl(broker, broker.keys.claim("worker.child"), 24 * HOUR)


def test_what_is_due_is_promoted(broker):
    due, ahead = put(broker, 2, delay_ms=HOUR)
    make_due(broker, due)
    assert claim_ids(broker, 5) == [due]
    assert places(broker, ahead) == ["scheduled"]


def test_what_is_due_is_promoted_even_when_others_stand_before_it(broker):
    put(broker, 2, priority=1)
    (due,) = put(broker, delay_ms=HOUR)
    make_due(broker, due)
    claim(broker, 1)
    assert places(broker, due) == ["ready"]


def test_a_promoted_record_keeps_its_priority_and_due_time(broker):
    (due,) = put(broker, delay_ms=HOUR, priority=9)
    put(broker, priority=100)
    make_due(broker, due, ago=700)
    moment = score(broker, due, "scheduled")
    claim(broker)
    assert score(broker, due, "ready") == moment - 9 * 10**13


def test_the_time_until_the_next_due_record_comes_back(broker):
    put(broker, delay_ms=HOUR, queue="a")
    put(broker, delay_ms=MINUTE, queue="b")
    found = claim(broker, queues=["a", "b"])
    assert MINUTE - 5000 < found.next_due_ms <= MINUTE


def test_there_is_no_next_due_time_when_nothing_is_scheduled(broker):
    put(broker)
    assert claim(broker).next_due_ms is None


def test_due_records_beyond_a_page_are_due_at_once(broker):
    ids = put(broker, 600, delay_ms=HOUR)
    broker.client.zadd(broker.keys.scheduled("q"), dict.fromkeys(ids, 1000))
    found = claim(broker, 1)
    assert found.next_due_ms == 0
    assert broker.client.zcard(broker.keys.scheduled("q")) == 100
    assert claim(broker, 1).next_due_ms is None


def test_a_claim_carries_about_a_mebibyte(broker):
    put(broker, 6, envelope=b"x" * 400_000)
    assert len(claim(broker, 6).leases) == 3
    assert len(claim(broker, 6).leases) == 3


def test_a_wish_for_more_than_there_is_takes_all(broker):
    ids = put(broker, 1200)
    assert claim_ids(broker, 5000) == ids
