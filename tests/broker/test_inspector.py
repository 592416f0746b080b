from __future__ import annotations

import pytest

from django_taskq.broker.inspector import Counts, Inspector
from django_taskq.broker.records import State
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    RESULT,
    bury_one,
    claim,
    dump,
    lease_one,
    now,
    put,
    record,
    score,
)
from tests.waiting import wait_until


@pytest.fixture
def inspector(broker):
    return Inspector(broker)


class TestRecord:
    def test_a_waiting_record_has_no_attempts(self, broker, inspector):
        new = record(priority=5, key="k", key_ttl_ms=7, record_alias="default")
        (stored,) = broker.enqueue([new])
        found = inspector.record(new.id)
        assert (found.id, found.state, found.attempts, found.token) == (new.id, State.WAITING, 0, 0)
        assert (found.worker, found.started_at, found.finished_at, found.due_at) == (None, None, None, None)
        assert (found.head.priority, found.head.key, found.head.record_alias) == (5, "k", "default")
        assert found.head.enqueued_at == stored.enqueued_at
        assert (found.envelope.name, found.expires_in_ms, found.history) == ("app.tasks.work", None, ())

    def test_a_record_tells_when_it_goes(self, broker, inspector):
        lease = lease_one(broker)
        broker.complete(lease, RESULT, HOUR)
        assert HOUR - MINUTE < inspector.record(lease.id).expires_in_ms <= HOUR

    def test_there_is_none_where_nothing_is(self, inspector):
        assert inspector.record("NOBODY") is None

    def test_an_expiring_body_without_a_run_is_none(self, broker, inspector):
        broker.client.set(broker.keys.task("A"), "1 0 q\n\n{}", px=HOUR)
        assert inspector.record("A") is None

    def test_a_record_whose_body_is_lost_still_tells_its_state(self, broker, inspector):
        lease = lease_one(broker)
        broker.complete(lease, RESULT)
        broker.client.delete(broker.keys.task(lease.id))
        assert inspector.record(lease.id).state is State.SUCCEEDED

    def test_the_chain_of_aliases_is_followed_and_a_circle_ends(self, broker, inspector):
        (record_id,) = put(broker)
        for index in range(3):
            target = record_id if index == 2 else f"A{index + 1}"
            broker.client.set(broker.keys.task(f"A{index}"), f"alias {target}", px=HOUR)
        broker.client.set(broker.keys.task("C"), "alias C", px=HOUR)
        assert inspector.record("A0").id == record_id
        assert inspector.record("C") is None

    def test_an_alias_of_what_is_gone_is_none(self, broker, inspector):
        broker.client.set(broker.keys.task("A"), "alias NOBODY", px=HOUR)
        assert inspector.record("A") is None

    def test_worker_ids_are_the_children_of_this_round(self, broker, inspector):
        lease = lease_one(broker, child="worker.a")
        broker.retry(lease, 0, ERROR)
        claim(broker, child="worker.b")
        found = inspector.record(lease.id)
        assert (found.worker_ids, [attempt.child for attempt in found.round]) == (
            ["worker.a", "worker.b"],
            ["worker.a"],
        )

    def test_a_requeue_begins_a_new_round(self, broker, inspector):
        record_id, died_at = bury_one(broker, child="worker.a")
        assert inspector.record(record_id).worker_ids == ["worker.a"]
        broker.requeue([(record_id, died_at, 0)])
        claim(broker, child="worker.b")
        assert inspector.record(record_id).worker_ids == ["worker.b"]

    def test_a_released_attempt_is_in_no_round(self, broker, inspector):
        lease = lease_one(broker)
        broker.release(lease)
        assert inspector.record(lease.id).worker_ids == []


class TestRecords:
    def test_many_come_in_their_order_with_none_for_what_is_not_there(self, broker, inspector):
        first, second = put(broker, 2)
        found = inspector.records([second, "NOBODY", first])
        assert [one and one.id for one in found] == [second, None, first]

    def test_an_alias_is_not_followed(self, broker, inspector):
        first, duplicate = record(key="k"), record(key="k")
        broker.enqueue([first, duplicate])
        assert [one and one.id for one in inspector.records([duplicate.id, first.id])] == [None, first.id]

    def test_more_than_a_thousand(self, broker, inspector):
        ids = put(broker, 1001)
        assert [one.id for one in inspector.records(ids)] == ids

    def test_large_ones_come_in_replies_of_about_a_mebibyte(self, broker, inspector):
        ids = put(broker, 5, envelope=b'{"name":"' + b"x" * 600_000 + b'"}')
        replies = []
        run = broker.run
        broker.run = lambda *call: replies.append(run(*call)) or replies[-1]
        assert [len(one.envelope.name) for one in inspector.records(ids)] == [600_000] * 5
        assert [len(reply) for reply in replies] == [2, 2, 1]

    def test_none_asks_nothing(self, broker, inspector):
        broker.client.close()
        assert inspector.records([]) == []


def test_reading_writes_nothing(broker, inspector):
    lease = lease_one(broker)
    put(broker, 3, delay_ms=HOUR)
    before = dump(broker)
    inspector.record(lease.id)
    inspector.records(["NOBODY"])
    inspector.counts()
    list(inspector.listing("q", "scheduled"))
    inspector.workers()
    assert dump(broker) == before


def test_queues_are_those_ever_used_in_order(broker, inspector):
    for queue in ("b", "a", "ü"):
        broker.complete(lease_one(broker, queue), b"{}")
    assert inspector.queues() == ["a", "b", "ü"]


def test_counts_tell_each_place(broker, inspector):
    lease_one(broker, "a")
    bury_one(broker, "a")
    put(broker, 3, queue="a")
    put(broker, 2, queue="a", delay_ms=HOUR)
    put(broker, 1, queue="b")
    assert inspector.counts() == {"a": Counts(3, 2, 1, 1), "b": Counts(1, 0, 0, 0)}
    assert inspector.counts(["b", "c"]) == {"b": Counts(1, 0, 0, 0), "c": Counts(0, 0, 0, 0)}
    assert inspector.counts([]) == {}


class TestListing:
    @pytest.fixture
    def ids(self, broker):
        return put(broker, 10)

    @pytest.fixture
    def listing(self, inspector, ids):
        return inspector.listing("q", "ready")

    @pytest.mark.parametrize(
        "index",
        [
            slice(None),
            slice(0, 3),
            slice(3, 5),
            slice(8, 50),
            slice(50, 60),
            slice(5, 3),
            slice(0, 0),
            slice(None, None, 3),
            slice(1, 8, 2),
            slice(-3, None),
            slice(None, -3),
            slice(-50, 2),
            slice(-4, -2),
            slice(None, None, -1),
            slice(7, 2, -2),
        ],
    )
    def test_a_slice_is_that_of_a_list(self, listing, ids, index):
        assert [record_id for record_id, _ in listing[index]] == ids[index]

    @pytest.mark.parametrize("index", [0, 9, -1, -10])
    def test_an_index_is_that_of_a_list(self, listing, ids, index):
        assert listing[index][0] == ids[index]

    @pytest.mark.parametrize("index", [10, -11])
    def test_an_index_beyond_it_raises(self, listing, index):
        with pytest.raises(IndexError):
            listing[index]

    def test_length_and_truth(self, listing, inspector):
        assert len(listing) == 10
        assert not inspector.listing("other", "ready")

    def test_iteration_goes_through_pages(self, broker, inspector):
        ids = put(broker, 1005, queue="long")
        assert [record_id for record_id, _ in inspector.listing("long", "ready")] == ids

    def test_scores_are_whole_numbers(self, broker, inspector):
        (record_id,) = put(broker, queue="p", priority=-100)
        assert list(inspector.listing("p", "ready")) == [(record_id, score(broker, record_id, "ready", "p"))]

    def test_only_the_four_places_are_listed(self, inspector):
        with pytest.raises(ValueError, match="ready, scheduled, leased, dead"):
            inspector.listing("q", "wake")


class TestWorkers:
    def test_a_heartbeat_is_presence(self, broker, inspector):
        before = now(broker)
        assert broker.heartbeat("worker-1", {"host": "h", "pid": 5, "load": 0.5}, MINUTE) == 1
        (worker,) = inspector.workers()
        assert (worker["name"], worker["host"], worker["pid"], worker["load"]) == ("worker-1", "h", "5", "0.5")
        assert before <= int(worker["seen_at"]) <= now(broker)

    def test_a_later_heartbeat_replaces_the_fields_it_names(self, broker, inspector):
        broker.heartbeat("w", {"a": 1}, MINUTE)
        assert broker.heartbeat("w", {"a": 2}, MINUTE) == 1
        assert inspector.workers()[0]["a"] == "2"

    def test_a_worker_that_leaves_is_gone_at_once(self, broker, inspector):
        broker.heartbeat("w", {"a": 1}, MINUTE)
        broker.heartbeat("x", {"a": 1}, MINUTE)
        assert broker.heartbeat("w", {}, MINUTE) == 1
        assert [worker["name"] for worker in inspector.workers()] == ["x"]
        assert not broker.client.exists(broker.keys.worker("w"))

    def test_a_worker_that_was_not_seen_for_its_ttl_is_trimmed(self, broker, inspector):
        broker.heartbeat("dead", {"a": 1}, MINUTE)
        broker.client.zincrby(broker.keys.workers, -2 * MINUTE, "dead")
        assert broker.heartbeat("w", {"a": 1}, MINUTE) == 1
        assert broker.client.zrange(broker.keys.workers, 0, -1) == [b"w"]

    def test_a_worker_with_a_short_lease_keeps_those_with_a_long_one(self, broker, inspector):
        broker.heartbeat("slow", {"a": 1}, MINUTE)
        at = now(broker)
        wait_until(lambda: now(broker) > at + 5)
        assert broker.heartbeat("quick", {"a": 1}, 1) == 2
        assert "slow" in [worker["name"] for worker in inspector.workers()]

    def test_presence_that_expired_is_not_shown(self, broker, inspector):
        broker.heartbeat("w", {"a": 1}, MINUTE)
        assert 0 < broker.client.pttl(broker.keys.worker("w")) <= MINUTE
        broker.client.delete(broker.keys.worker("w"))
        assert inspector.workers() == []
