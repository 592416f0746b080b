"""Idempotency keys: one live record a key, for as long as that record blocks repeats."""

from __future__ import annotations

import pytest

from django_taskq.broker.inspector import Inspector
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
    lease_one,
    put,
    read,
    record,
    score,
    settle,
    ttl,
)


def keyed(**fields):
    return record(key="k", **{"key_ttl_ms": HOUR, **fields})


def owner(broker, key="k"):
    found = broker.client.get(broker.keys.idem(key))
    return found and found.decode()


def test_the_second_with_a_key_is_not_stored_and_told_the_first(broker):
    first, second = keyed(), keyed(queue="other", priority=5)
    (stored,) = broker.enqueue([first])
    (answer,) = broker.enqueue([second])
    assert (answer.word, answer.id, answer.state) == ("TAKEN", first.id, State.WAITING)
    assert answer.enqueued_at == stored.enqueued_at
    assert claim_ids(broker, 5, queues=["q", "other"]) == [first.id]
    assert broker.client.smembers(broker.keys.queues) == {b"q"}


def test_two_with_one_key_in_a_batch_are_one(broker):
    first, second = keyed(), keyed()
    assert [(a.word, a.id) for a in broker.enqueue([first, second])] == [("STORED", first.id), ("TAKEN", first.id)]


def test_records_without_a_key_or_with_others_are_not_concerned(broker):
    broker.enqueue([keyed()])
    answers = broker.enqueue([record(), record(), record(key="K"), record(key="k ")])
    assert [answer.word for answer in answers] == ["STORED"] * 4


@pytest.mark.parametrize("key", ["with space", "a:b", "{x}", "*", "ü" * 100, '"', "k" * 255])
def test_a_key_may_hold_anything_printable(broker, key):
    new = record(key=key, key_ttl_ms=5)
    broker.enqueue([new])
    assert owner(broker, key) == new.id
    head = read(broker, new.id).head
    assert (head.key, head.key_ttl_ms) == (key, 5)
    assert broker.enqueue([record(key=key)])[0].word == "TAKEN"


@pytest.mark.parametrize("state", ["leased", "retry", "release", "complete"])
def test_the_answer_tells_the_state_of_the_first(broker, state):
    lease = lease_one(broker, key="k", key_ttl_ms=HOUR)
    if state != "leased":
        settle(broker, state, lease)
    (answer,) = broker.enqueue([keyed()])
    assert (answer.word, answer.id) == ("TAKEN", lease.id)
    assert answer.state == {"leased": State.LEASED, "complete": State.SUCCEEDED}.get(state, State.WAITING)


def test_a_key_stays_while_its_record_waits_or_runs(broker):
    put(broker, key="k", key_ttl_ms=1)
    assert ttl(broker, broker.keys.idem("k")) is None
    (lease,) = claim(broker).leases
    assert ttl(broker, broker.keys.idem("k")) is None
    broker.retry(lease, 0, ERROR)
    assert ttl(broker, broker.keys.idem("k")) is None


def test_complete_gives_the_key_its_ttl(broker):
    lease = lease_one(broker, key="k", key_ttl_ms=2 * HOUR)
    broker.complete(lease, b"{}", MINUTE)
    assert has_ttl(broker, broker.keys.idem("k"), 2 * HOUR)
    assert has_ttl(broker, broker.keys.task(lease.id), 2 * HOUR)


def test_a_key_without_a_ttl_is_free_at_once(broker):
    lease = lease_one(broker, key="k", key_ttl_ms=0)
    broker.complete(lease, b"{}")
    assert owner(broker) is None
    assert broker.enqueue([keyed()])[0].word == "STORED"


def test_a_dead_letter_blocks_nothing(broker):
    bury_one(broker, key="k", key_ttl_ms=HOUR)
    assert owner(broker) is None
    assert broker.enqueue([keyed()])[0].word == "STORED"


def test_a_cancelled_record_blocks_nothing(broker):
    (record_id,) = put(broker, key="k", key_ttl_ms=HOUR)
    broker.cancel([record_id])
    assert owner(broker) is None
    lease = lease_one(broker, key="k")
    broker.cancel([lease.id])
    assert owner(broker) == lease.id
    broker.retry(lease, 0, ERROR)
    assert owner(broker) is None


def test_a_key_is_freed_only_by_the_record_that_it_names(broker):
    record_id, died_at = bury_one(broker, key="k")
    (second,) = put(broker, key="k")
    broker.discard([(record_id, died_at)])
    assert owner(broker) == second
    lease = lease_one(broker, "b", key="other")
    broker.client.set(broker.keys.idem("other"), second)
    broker.complete(lease, b"{}")
    assert owner(broker, "other") == second
    assert ttl(broker, broker.keys.idem("other")) is None


def test_requeue_takes_the_key_again(broker):
    record_id, died_at = bury_one(broker, key="k", key_ttl_ms=HOUR)
    assert broker.requeue([(record_id, died_at, 0)]) == ["DONE"]
    assert owner(broker) == record_id
    assert broker.enqueue([keyed()])[0].id == record_id


@pytest.mark.parametrize("state", ["waiting", "leased", "succeeded"])
def test_requeue_is_refused_while_another_holds_the_key(broker, state):
    record_id, died_at = bury_one(broker, key="k", key_ttl_ms=HOUR)
    lease = lease_one(broker, key="k", key_ttl_ms=HOUR) if state != "waiting" else None
    if state == "waiting":
        put(broker, key="k")
    elif state == "succeeded":
        broker.complete(lease, b"{}")
    before = dump(broker)
    assert broker.requeue([(record_id, died_at, 0)]) == ["TAKEN"]
    assert dump(broker) == before


def test_of_two_dead_letters_with_one_key_one_can_be_requeued(broker):
    dead = [bury_one(broker, key="k") for _ in range(2)]
    assert broker.requeue([(*pair, 0) for pair in dead]) == ["DONE", "TAKEN"]


def test_requeue_takes_the_key_over_from_a_dead_letter(broker):
    record_id, died_at = bury_one(broker, key="k")
    other, _ = bury_one(broker, key="k")
    broker.client.set(broker.keys.idem("k"), other)
    assert broker.requeue([(record_id, died_at, 0)]) == ["DONE"]
    assert owner(broker) == record_id


@pytest.mark.parametrize("leftover", ["NOBODY", "wrong type", "body lost", "dead", "cancelled"])
def test_a_key_whose_record_blocks_nothing_is_taken_over(broker, leftover):
    name = broker.keys.idem("k")
    if leftover == "NOBODY":
        broker.client.set(name, "NOBODY")
    elif leftover == "wrong type":
        broker.client.rpush(name, "x")
    elif leftover == "body lost":
        broker.client.delete(broker.keys.task(put(broker, key="k")[0]))
        broker.client.delete(broker.keys.ready("q"))
    elif leftover == "dead":
        broker.client.set(name, bury_one(broker, key="k")[0])
    else:
        (record_id,) = put(broker)
        broker.cancel([record_id])
        broker.client.set(name, record_id)
    new = keyed()
    assert broker.enqueue([new])[0].word == "STORED"
    assert owner(broker) == new.id
    assert ttl(broker, name) is None


def test_a_key_that_names_an_alias_is_taken_over(broker):
    first, duplicate = keyed(), keyed()
    broker.enqueue([first, duplicate])
    broker.client.set(broker.keys.idem("k"), duplicate.id)
    assert broker.enqueue([keyed()])[0].word == "STORED"


class TestAlias:
    def test_a_refused_id_stays_readable_as_the_first(self, broker):
        first, second = keyed(), keyed()
        broker.enqueue([first, second])
        assert Inspector(broker).record(second.id) == Inspector(broker).record(first.id)
        assert Inspector(broker).record(second.id).id == first.id

    def test_it_goes_after_a_minute(self, broker):
        second = keyed()
        broker.enqueue([keyed(), second])
        assert has_ttl(broker, broker.keys.task(second.id), MINUTE)

    def test_with_a_row_it_goes_after_a_day(self, broker):
        second = keyed(record_alias="default")
        broker.enqueue([keyed(), second])
        assert has_ttl(broker, broker.keys.task(second.id), 24 * HOUR)

    def test_a_resend_gets_the_same_answer(self, broker):
        first, second = keyed(), keyed()
        (_, refused) = broker.enqueue([first, second])
        before = dump(broker)
        assert broker.enqueue([second]) == [refused]
        assert dump(broker) == before

    def test_a_resend_gets_it_even_when_the_key_is_free_since(self, broker):
        first, second = keyed(), keyed()
        broker.enqueue([first, second])
        lease = claim(broker).leases[0]
        broker.bury(lease, ERROR)
        (answer,) = broker.enqueue([second])
        assert (answer.word, answer.id, answer.state) == ("TAKEN", first.id, State.DEAD)
        assert owner(broker) is None

    def test_it_is_in_no_set(self, broker):
        second = keyed()
        broker.enqueue([keyed(), second])
        assert broker.client.zcard(broker.keys.ready("q")) == 1


def test_a_key_survives_a_release_at_a_worker_s_end(broker):
    lease = lease_one(broker, key="k")
    broker.release(lease)
    assert owner(broker) == lease.id
    assert broker.enqueue([keyed()])[0].word == "TAKEN"


def test_a_stale_worker_s_end_does_not_free_the_key(broker):
    stale = lease_one(broker, key="k")
    broker.release(stale)
    claim(broker, child="other.child")
    assert broker.bury(stale, ERROR) == "LEASE_LOST"
    assert owner(broker) == stale.id


def test_a_requeued_record_can_die_again(broker):
    record_id, died_at = bury_one(broker, key="k")
    broker.requeue([(record_id, died_at, 0)])
    broker.bury(claim(broker).leases[0], ERROR)
    assert owner(broker) is None
    assert score(broker, record_id, "dead") >= died_at
