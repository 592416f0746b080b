"""What arms the marker that wakes a waiting worker, and what must not, or an idle worker would spin."""

from __future__ import annotations

import pytest

from tests.broker.helpers import (
    HOUR,
    MINUTE,
    armed,
    bury_one,
    claim,
    claim_ids,
    disarm,
    lease_one,
    make_due,
    put,
    record,
    request,
)


def test_a_ready_record_arms_its_queue(broker):
    put(broker, queue="a")
    assert armed(broker, "a")
    assert not armed(broker, "b")


def test_one_marker_stands_for_any_number_of_records(broker):
    put(broker, 50)
    assert broker.wait(["q"], 0.01) == "q"
    assert broker.wait(["q"], 0.01) is None


@pytest.mark.parametrize(("delay", "woken"), [(MINUTE, True), (2 * HOUR, False)])
def test_a_delayed_record_arms_when_it_is_sooner_than_all_others(broker, delay, woken):
    put(broker, delay_ms=HOUR)
    disarm(broker)
    put(broker, delay_ms=delay)
    assert armed(broker) is woken


@pytest.mark.parametrize(("delay", "woken"), [(0, True), (MINUTE, True), (2 * HOUR, False)])
def test_a_retry_arms_when_it_is_due_or_sooner_than_all_others(broker, delay, woken):
    lease = lease_one(broker)
    put(broker, delay_ms=HOUR)
    disarm(broker)
    broker.retry(lease, delay, b"{}")
    assert armed(broker) is woken


def test_release_requeue_and_promote_arm(broker):
    lease = lease_one(broker)
    disarm(broker)
    broker.release(lease)
    assert armed(broker)
    claim(broker)
    record_id, died_at = bury_one(broker)
    disarm(broker)
    broker.requeue([(record_id, died_at, 0)])
    assert armed(broker)
    (delayed,) = put(broker, delay_ms=HOUR)
    disarm(broker)
    broker.promote(delayed)
    assert armed(broker)


def test_an_answer_that_stores_nothing_arms_nothing(broker):
    new = record(key="k")
    broker.enqueue([new])
    disarm(broker)
    broker.enqueue([new, record(key="k")])
    assert not armed(broker)


def test_healing_arms(broker):
    new = record()
    broker.enqueue([new])
    broker.client.delete(broker.keys.ready("q"))
    disarm(broker)
    broker.enqueue([new])
    assert armed(broker)


def test_a_claim_that_leaves_work_wakes_another(broker):
    put(broker, 2)
    disarm(broker)
    claim(broker)
    assert armed(broker)


def test_a_claim_that_takes_all_wakes_nobody(broker):
    put(broker, 2)
    disarm(broker)
    claim(broker, 5)
    assert not armed(broker)


def test_a_claim_arms_only_the_queues_it_was_given(broker):
    put(broker, queue="a")
    disarm(broker, "a")
    claim(broker, queues=["b"])
    assert not armed(broker, "a")


def test_a_full_claim_hands_the_watch_over_due_times_to_another(broker):
    put(broker)
    put(broker, delay_ms=HOUR)
    disarm(broker)
    claim(broker, 1)
    assert armed(broker)


def test_a_claim_with_room_left_keeps_the_watch_itself(broker):
    put(broker)
    put(broker, delay_ms=HOUR)
    disarm(broker)
    claim(broker, 2)
    assert not armed(broker)


def test_a_full_claim_from_one_queue_hands_over_the_watch_of_all(broker):
    put(broker, queue="a")
    put(broker, queue="b", delay_ms=HOUR)
    disarm(broker, "b")
    claim(broker, 1, queues=["a", "b"])
    assert armed(broker, "b")


def test_due_records_that_a_full_claim_did_not_look_at_arm(broker):
    put(broker, queue="a")
    (due,) = put(broker, queue="b", delay_ms=HOUR)
    make_due(broker, due, queue="b")
    disarm(broker, "b")
    assert claim(broker, 1, queues=["a", "b"]).next_due_ms == 0
    assert armed(broker, "b")


def test_due_records_beyond_a_page_arm(broker):
    ids = put(broker, 501, delay_ms=HOUR)
    broker.client.zadd(broker.keys.scheduled("q"), dict.fromkeys(ids, 1000))
    disarm(broker)
    claim(broker, 1000)
    assert armed(broker)


def test_a_repeated_claim_arms_too(broker):
    put(broker, 2)
    wanted = request(1)
    broker.claim(wanted)
    disarm(broker)
    broker.claim(wanted)
    assert armed(broker)


@pytest.mark.parametrize("scheduled", [0, 3])
def test_an_idle_worker_does_not_spin(broker, scheduled):
    put(broker, scheduled, delay_ms=HOUR)
    put(broker, 2)
    woken = 0
    while broker.wait(["q"], 0.01):
        woken += 1
        claim_ids(broker, 10)
        assert woken < 5
    assert woken >= 1


def test_a_worker_with_no_free_slot_that_gives_the_marker_back_loses_nothing(broker):
    put(broker)
    assert broker.wait(["q"], 0.01) == "q"
    broker.arm("q")
    assert broker.wait(["q"], 0.01) == "q"


def test_a_wait_tells_whose_marker_it_took(broker):
    put(broker, queue="a b")
    assert broker.wait(["x", "a b"], 0.01) == "a b"


def test_a_wait_takes_the_first_of_its_queues(broker):
    put(broker, queue="a")
    put(broker, queue="b")
    assert broker.wait(["b", "a"], 0.01) == "b"
