from __future__ import annotations

import pytest

from django_taskq.broker.enqueueing import PAGE_RECORDS
from django_taskq.broker.exceptions import BrokerError, InvalidName
from django_taskq.broker.records import State
from tests.broker.helpers import (
    HOUR,
    claim,
    claim_ids,
    dump,
    lease_one,
    make_due,
    now,
    places,
    put,
    read,
    record,
    score,
    settle,
)


def lease_of(broker):
    (lease,) = claim(broker).leases
    return lease


def test_a_new_record_is_stored_and_ready(broker):
    new = record()
    (answer,) = broker.enqueue([new])
    assert (answer.word, answer.id, answer.state) == ("STORED", new.id, State.WAITING)
    assert places(broker, new.id) == ["ready"]
    found = read(broker, new.id)
    assert found.state is State.WAITING
    assert found.head.enqueued_at == answer.enqueued_at
    assert (found.head.queue, found.envelope_bytes) == ("q", new.envelope)


def test_the_time_of_enqueuing_is_the_server_s(broker):
    before = now(broker)
    (answer,) = broker.enqueue([record()])
    assert before <= answer.enqueued_at <= now(broker)


def test_a_larger_priority_comes_first_then_the_earlier(broker):
    low, first, high, second = (put(broker, priority=priority)[0] for priority in (-5, 0, 10, 0))
    assert claim_ids(broker, 4) == [high, first, second, low]


@pytest.mark.parametrize("priority", [-100, 100])
def test_the_extreme_priorities_give_exact_scores(broker, priority):
    (answer,) = broker.enqueue([record(priority=priority)])
    assert score(broker, answer.id, "ready") == answer.enqueued_at - priority * 10**13


def test_priorities_differ_by_more_than_any_time(broker):
    (old,) = put(broker, priority=0)
    broker.client.zincrby(broker.keys.ready("q"), -9_000_000_000_000, old)  # as if 285 years older
    (urgent,) = put(broker, priority=1)
    assert claim_ids(broker, 2) == [urgent, old]


def test_records_of_one_millisecond_keep_their_order(broker):
    ids = put(broker, 200)
    assert claim_ids(broker, 200) == ids


@pytest.mark.parametrize("priority", [101, -101, 2**60])
def test_a_priority_out_of_range_is_refused_and_nothing_stored(broker, priority):
    with pytest.raises(InvalidName):
        broker.enqueue([record(), record(priority=priority)])
    assert dump(broker) == {}


@pytest.mark.parametrize("priority", ["101", "-101", "1.5", "1e1", "", "x", "5 q"])
def test_the_script_refuses_it_too_before_it_stores_anything(broker, priority):
    with pytest.raises(BrokerError, match="-100 to 100"):
        broker.run("enqueue", ["A", "q", 0, 0, 0, "", b"{}", "B", "q", priority, 0, 0, "", b"{}"])
    assert dump(broker) == {}


def test_a_delay_counts_from_the_server_s_clock(broker):
    (answer,) = broker.enqueue([record(delay_ms=5000)])
    assert places(broker, answer.id) == ["scheduled"]
    assert score(broker, answer.id, "scheduled") == answer.enqueued_at + 5000
    assert read(broker, answer.id).due_at == answer.enqueued_at + 5000


def test_an_absolute_time_is_kept_to_the_millisecond(broker):
    at = now(broker) + 123_457
    (record_id,) = put(broker, at_ms=at)
    assert score(broker, record_id, "scheduled") == at


@pytest.mark.parametrize(("delay", "ahead", "due"), [(5000, 1000, 5000), (1000, 5000, 5000)])
def test_the_later_of_delay_and_time_counts(broker, delay, ahead, due):
    moment = now(broker)
    (record_id,) = put(broker, delay_ms=delay, at_ms=moment + ahead)
    assert 0 <= score(broker, record_id, "scheduled") - moment - due < 1000


@pytest.mark.parametrize("fields", [{"delay_ms": 0}, {"delay_ms": -5000}, {"at_ms": 1}, {"at_ms": -1}])
def test_a_time_that_has_passed_means_now_and_overtakes_nobody(broker, fields):
    (first,) = put(broker)
    (answer,) = broker.enqueue([record(**fields)])
    assert score(broker, answer.id, "ready") == answer.enqueued_at
    assert claim_ids(broker, 2) == [first, answer.id]


def test_a_time_in_the_year_9999_is_kept(broker):
    (record_id,) = put(broker, at_ms=253_402_300_799_999)
    assert score(broker, record_id, "scheduled") == 253_402_300_799_999


def test_an_urgent_record_that_is_not_due_stands_before_nobody(broker):
    (urgent,) = put(broker, priority=100, delay_ms=HOUR)
    (plain,) = put(broker)
    assert claim_ids(broker, 2) == [plain]
    assert places(broker, urgent) == ["scheduled"]


def test_a_delayed_record_takes_its_place_by_due_time(broker):
    (delayed,) = put(broker, delay_ms=HOUR)
    (later,) = put(broker)
    make_due(broker, delayed, ago=5000)
    assert claim_ids(broker, 2) == [delayed, later]


def test_a_record_that_is_sent_again_changes_nothing(broker):
    new = record(priority=3, key="k", key_ttl_ms=1000)
    (first,) = broker.enqueue([new])
    before = dump(broker)
    (second,) = broker.enqueue([new])
    assert (second.word, second.id, second.state) == ("EXISTS", new.id, State.WAITING)
    assert second.enqueued_at == first.enqueued_at
    assert dump(broker) == before


def test_one_id_twice_in_a_batch_is_stored_once(broker):
    new = record()
    assert [answer.word for answer in broker.enqueue([new, new])] == ["STORED", "EXISTS"]
    assert claim_ids(broker, 5) == [new.id]


@pytest.mark.parametrize(
    ("end", "state"),
    [("leased", "leased"), ("complete", "succeeded"), ("bury", "dead"), ("retry", "waiting"), ("release", "waiting")],
)
def test_a_resend_tells_the_state_and_leaves_it(broker, end, state):
    new = record()
    broker.enqueue([new])
    lease = lease_of(broker)
    if end != "leased":
        settle(broker, end, lease)
    before = dump(broker)
    (answer,) = broker.enqueue([new])
    assert (answer.word, answer.state) == ("EXISTS", State(state))
    assert dump(broker) == before


def test_a_record_whose_body_is_lost_but_not_its_run_is_not_stored_again(broker):
    lease = lease_one(broker)
    broker.complete(lease, b"{}")
    broker.client.delete(broker.keys.task(lease.id))
    (answer,) = broker.enqueue([record(id=lease.id)])
    assert (answer.word, answer.state) == ("EXISTS", State.SUCCEEDED)
    assert not broker.client.exists(broker.keys.task(lease.id))


def test_a_waiting_record_that_is_in_no_set_is_put_back_at_its_place(broker):
    (before,) = put(broker)
    new = record(priority=7)
    (answer,) = broker.enqueue([new])
    broker.client.zrem(broker.keys.ready("q"), new.id)
    assert broker.enqueue([new])[0].word == "EXISTS"
    assert score(broker, new.id, "ready") == answer.enqueued_at - 7 * 10**13
    assert claim_ids(broker, 2) == [new.id, before]


def test_a_scheduled_record_that_is_in_no_set_is_put_back_for_its_due_time(broker):
    new = record(delay_ms=HOUR)
    (answer,) = broker.enqueue([new])
    broker.client.delete(broker.keys.scheduled("q"))
    broker.enqueue([new])
    assert score(broker, new.id, "scheduled") == answer.enqueued_at + HOUR


def test_a_lost_lease_entry_comes_back_as_lapsed(broker):
    new = record()
    broker.enqueue([new])
    lease = lease_of(broker)
    broker.client.delete(broker.keys.leased("q"))
    broker.enqueue([new])
    assert [one.id for one in broker.expired(["q"]).leases] == [lease.id]


def test_a_lost_dead_letter_comes_back(broker):
    new = record()
    broker.enqueue([new])
    broker.bury(lease_of(broker), b"{}")
    broker.client.delete(broker.keys.dead("q"))
    broker.enqueue([new])
    assert places(broker, new.id) == ["dead"]


def test_an_ended_record_is_not_put_anywhere(broker):
    new = record()
    broker.enqueue([new])
    broker.cancel([new.id])
    assert broker.enqueue([new])[0].state is State.CANCELLED
    assert places(broker, new.id) == []


def test_a_resend_heals_in_the_record_s_own_queue(broker):
    new = record("first")
    broker.enqueue([new])
    broker.client.delete(broker.keys.ready("first"))
    broker.enqueue([record("second", id=new.id)])
    assert places(broker, new.id, "first") == ["ready"]
    assert places(broker, new.id, "second") == []


def calls_of(monkeypatch, broker, act):
    """Count the scripts that are sent, once the server knows them."""
    sent = []
    execute = broker.client.execute_command

    def counting(*arguments, **options):
        sent.append(arguments[0])
        return execute(*arguments, **options)

    broker.enqueue([record()])
    monkeypatch.setattr(broker.client, "execute_command", counting)
    act()
    return sent


def test_a_page_of_records_is_one_round_trip(broker, monkeypatch):
    records = [record() for _ in range(PAGE_RECORDS)]
    assert calls_of(monkeypatch, broker, lambda: broker.enqueue(records)) == ["EVALSHA"]


def test_one_more_is_two(broker, monkeypatch):
    records = [record() for _ in range(PAGE_RECORDS + 1)]
    answers = []
    assert len(calls_of(monkeypatch, broker, lambda: answers.extend(broker.enqueue(records)))) == 2
    assert [answer.id for answer in answers] == [one.id for one in records]


def test_a_call_carries_a_mebibyte_at_most(broker, monkeypatch):
    records = [record(envelope=b"x" * 2**18) for _ in range(9)]
    assert len(calls_of(monkeypatch, broker, lambda: broker.enqueue(records))) == 3


def test_one_record_of_more_than_a_mebibyte_goes_alone(broker):
    new = record(envelope=b"x" * 3 * 2**20)
    assert [answer.word for answer in broker.enqueue([record(), new, record()])] == ["STORED"] * 3
    assert read(broker, new.id).envelope_bytes == new.envelope


def test_nothing_to_enqueue_asks_nothing(broker):
    broker.client.close()
    assert broker.enqueue([]) == []


def test_each_queue_that_was_used_is_known(broker):
    put(broker, queue="a")
    put(broker, queue="b", delay_ms=1000)
    assert broker.client.smembers(broker.keys.queues) == {b"a", b"b"}


def test_envelopes_are_kept_byte_for_byte(broker):
    odd = b'{"name":"x","args":[[],{},1.0,12345678901234567890],"t":"\xc3\xa9\\/"}\n\n\x00\xff'
    (record_id,) = put(broker, envelope=odd)
    assert read(broker, record_id).envelope_bytes == odd
