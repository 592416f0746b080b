"""requeue and discard: what a person does with dead letters, as that person saw them."""

from __future__ import annotations

import pytest

from django_taskq.broker.records import State
from django_taskq.broker.settlements import Bury
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    bury_one,
    claim,
    dump,
    has_ttl,
    lease_one,
    now,
    places,
    put,
    read,
    score,
    ttl,
)


def test_a_requeued_record_is_ready_with_new_attempts_and_its_history(broker):
    record_id, died_at = bury_one(broker, priority=4)
    assert broker.requeue([(record_id, died_at, 0)]) == ["DONE"]
    found = read(broker, record_id)
    assert (found.state, found.attempts, found.finished_at, found.started_at) == (State.WAITING, 0, None, None)
    assert len(found.history) == 1
    assert died_at <= score(broker, record_id, "ready") + 4 * 10**13 <= now(broker)
    assert claim(broker).leases[0].attempt == 1


def test_requeued_records_can_be_spread(broker):
    pairs = [bury_one(broker) for _ in range(3)]
    moment = now(broker)
    assert broker.requeue([(*pair, index * MINUTE) for index, pair in enumerate(pairs)]) == ["DONE"] * 3
    assert [places(broker, record_id) for record_id, _ in pairs] == [["ready"], ["scheduled"], ["scheduled"]]
    assert 0 <= score(broker, pairs[2][0], "scheduled") - moment - 2 * MINUTE < MINUTE


def test_the_token_goes_on_growing_after_a_requeue(broker):
    lease = lease_one(broker)
    broker.bury(lease, ERROR)
    broker.requeue([(lease.id, score(broker, lease.id, "dead"), 0)])
    assert read(broker, lease.id).token == lease.token
    assert claim(broker).leases[0].token > lease.token


def test_a_requeued_record_is_no_longer_asked_to_cancel_or_unknown(broker):
    record_id, died_at = bury_one(broker)
    key = broker.keys.run(record_id)
    broker.client.hset(key, mapping={"cancel_requested": 5, "unknown_since": 5, "releases": 3})
    broker.requeue([(record_id, died_at, 0)])
    assert not read(broker, record_id).cancel_requested
    assert broker.client.hmget(key, "unknown_since", "releases") == [None, None]


def test_a_discarded_record_is_cancelled_and_readable_for_its_ttl(broker):
    record_id, died_at = bury_one(broker)
    assert broker.discard([(record_id, died_at)], result_ttl_ms=HOUR) == ["DONE"]
    found = read(broker, record_id)
    assert (found.state, len(found.history)) == (State.CANCELLED, 1)
    assert places(broker, record_id) == []
    assert has_ttl(broker, broker.keys.task(record_id), HOUR)


def act(broker, verb, record_id, died_at):
    pair = (record_id, died_at, 0) if verb == "requeue" else (record_id, died_at)
    return getattr(broker, verb)([pair])[0]


@pytest.mark.parametrize("verb", ["requeue", "discard"])
class TestEither:
    def test_it_takes_only_what_died_when_the_person_saw_it(self, broker, verb):
        record_id, died_at = bury_one(broker)
        before = dump(broker)
        assert act(broker, verb, record_id, died_at - 1) == "CHANGED"
        assert act(broker, verb, record_id, died_at + 1) == "CHANGED"
        assert dump(broker) == before

    def test_a_second_time_it_changes_nothing(self, broker, verb):
        record_id, died_at = bury_one(broker)
        act(broker, verb, record_id, died_at)
        before = dump(broker)
        assert act(broker, verb, record_id, died_at) == "CHANGED"
        assert dump(broker) == before

    def test_it_leaves_what_died_again_since(self, broker, verb):
        record_id, died_at = bury_one(broker)
        broker.requeue([(record_id, died_at, 0)])
        broker.bury(claim(broker).leases[0], ERROR)
        broker.client.zincrby(broker.keys.dead("q"), 1, record_id)  # at least a millisecond later
        before = dump(broker)
        assert act(broker, verb, record_id, died_at) == "CHANGED"
        assert dump(broker) == before

    def test_what_never_died_is_left_alone(self, broker, verb):
        (record_id,) = put(broker)
        before = dump(broker)
        assert act(broker, verb, record_id, now(broker)) == "CHANGED"
        assert act(broker, verb, "NOBODY", now(broker)) == "CHANGED"
        assert dump(broker) == before

    def test_more_than_a_thousand_are_answered_in_their_order(self, broker, verb):
        put(broker, 1003)
        leases = [*claim(broker, 1000).leases, *claim(broker, 1000).leases]
        broker.exchange([Bury(lease, ERROR) for lease in leases], None)
        broker.client.zadd(broker.keys.dead("q"), {lease.id: 7 for lease in leases})
        pairs = [(lease.id, 8 if index in (1, 1001) else 7) for index, lease in enumerate(leases)]
        dead = [(*pair, 0) for pair in pairs] if verb == "requeue" else pairs
        words = getattr(broker, verb)(dead)
        assert [index for index, word in enumerate(words) if word != "DONE"] == [1, 1001]

    def test_nothing_asked_is_nothing_sent(self, broker, verb):
        broker.client.close()
        assert getattr(broker, verb)([]) == []


def test_a_dead_letter_stays_until_somebody_acts(broker):
    record_id, _ = bury_one(broker, key="k")
    assert [ttl(broker, getattr(broker.keys, kind)(record_id)) for kind in ("task", "run", "log")] == [None] * 3
