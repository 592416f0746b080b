"""The words that settling answers, and that a refused one changes nothing."""

from __future__ import annotations

import pytest

from django_taskq.broker.broker import _settle_calls
from django_taskq.broker.records import State
from django_taskq.broker.settlements import Bury, Complete, Release, Retry
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    RESULT,
    SETTLEMENTS,
    Held,
    claim,
    dump,
    lapse,
    lease_one,
    now,
    places,
    put,
    read,
    record,
    request,
    score,
    settle,
)

KINDS = sorted(SETTLEMENTS)
GOALS = {"complete": "succeeded", "retry": "waiting", "bury": "dead", "release": "waiting"}


def test_complete_keeps_the_result(broker):
    lease = lease_one(broker)
    assert broker.complete(lease, RESULT) == "DONE"
    found = read(broker, lease.id)
    assert (found.state, found.result, found.attempts) == (State.SUCCEEDED, 42, 1)
    assert lease.claimed_at <= found.finished_at <= now(broker)
    assert places(broker, lease.id) == []


def test_retry_schedules_another_attempt(broker):
    lease = lease_one(broker, priority=5)
    assert broker.retry(lease, MINUTE, ERROR) == "DONE"
    found = read(broker, lease.id)
    assert (found.state, found.attempts, found.finished_at) == (State.WAITING, 1, None)
    assert places(broker, lease.id) == ["scheduled"]
    assert now(broker) + MINUTE - 5000 < found.due_at <= now(broker) + MINUTE
    assert found.history[0].error.message == "no"


@pytest.mark.parametrize("delay", [0, -5])
def test_a_retry_without_delay_stands_behind_those_that_were_ready(broker, delay):
    lease = lease_one(broker, priority=5)
    moment = now(broker)
    assert broker.retry(lease, delay, ERROR) == "DONE"
    assert moment <= score(broker, lease.id, "ready") + 5 * 10**13 <= now(broker)


def test_bury_makes_a_dead_letter(broker):
    lease = lease_one(broker)
    assert broker.bury(lease, ERROR) == "DONE"
    found = read(broker, lease.id)
    assert (found.state, found.attempts) == (State.DEAD, 1)
    assert places(broker, lease.id) == ["dead"]
    assert found.died_at == found.finished_at
    assert lease.claimed_at <= found.died_at <= now(broker)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_settlement_again_is_answered_already(broker, kind):
    lease = lease_one(broker)
    assert settle(broker, kind, lease) == "DONE"
    before = dump(broker)
    assert settle(broker, kind, lease) == "ALREADY"
    assert dump(broker) == before


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_another_settlement_after_it_is_refused(broker, first, second):
    lease = lease_one(broker)
    settle(broker, first, lease)
    before = dump(broker)
    assert settle(broker, second, lease) == ("ALREADY" if GOALS[first] == GOALS[second] else "LEASE_LOST")
    assert dump(broker) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_stale_token_settles_nothing(broker, kind):
    stale = lease_one(broker)
    broker.release(stale)
    (holder,) = claim(broker, child="other.child").leases
    before = dump(broker)
    assert settle(broker, kind, stale) == "LEASE_LOST"
    assert dump(broker) == before
    assert settle(broker, kind, holder) == "DONE"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [{"token": 1}, {"token": 10**14}, {"id": "NOBODY"}, {"queue": "other"}])
def test_what_is_not_held_is_not_settled(broker, kind, change):
    lease = lease_one(broker)
    before = dump(broker)
    assert settle(broker, kind, Held(lease, **change)) == "LEASE_LOST"
    assert dump(broker) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_waiting_record_is_not_settled(broker, kind):
    lease = lease_one(broker, queue="other")
    (record_id,) = put(broker)
    before = dump(broker)
    assert settle(broker, kind, Held(lease, id=record_id, queue="q")) == "LEASE_LOST"
    assert dump(broker) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_lapsed_lease_that_nobody_took_is_settled(broker, kind):
    lease = lease_one(broker)
    lapse(broker, lease, ago=HOUR)
    assert settle(broker, kind, lease) == "DONE"


@pytest.mark.parametrize("settlement", [Retry, Bury])
class TestLapsedFlag:
    def make(self, settlement, lease):
        return Retry(lease, 0, ERROR, lapsed=True) if settlement is Retry else Bury(lease, ERROR, lapsed=True)

    def send(self, broker, settlement, lease):
        return broker.exchange([self.make(settlement, lease)], None)[0][0]

    def test_it_settles_what_has_lapsed(self, broker, settlement):
        lease = lease_one(broker)
        lapse(broker, lease, ago=0)
        assert self.send(broker, settlement, lease) == "DONE"

    def test_it_refuses_what_is_held(self, broker, settlement):
        lease = lease_one(broker)
        before = dump(broker)
        assert self.send(broker, settlement, lease) == "HELD"
        assert dump(broker) == before

    def test_it_refuses_what_was_renewed_since_it_was_read(self, broker, settlement):
        lease = lease_one(broker)
        lapse(broker, lease)
        (found,) = broker.expired(["q"]).leases
        broker.renew([(lease.id, lease.queue, lease.token)], MINUTE)
        assert self.send(broker, settlement, found) == "HELD"
        assert places(broker, lease.id) == ["leased"]

    def test_a_lease_that_ends_later_than_in_a_day_has_lapsed(self, broker, settlement):
        lease = lease_one(broker)
        lapse(broker, lease, ago=-(24 * HOUR + MINUTE))
        assert self.send(broker, settlement, lease) == "DONE"

    def test_a_lease_of_almost_a_day_is_held(self, broker, settlement):
        lease = lease_one(broker)
        lapse(broker, lease, ago=-(24 * HOUR - MINUTE))
        assert self.send(broker, settlement, lease) == "HELD"

    def test_of_two_reapers_the_second_changes_nothing(self, broker, settlement):
        lease = lease_one(broker)
        lapse(broker, lease)
        self.send(broker, settlement, lease)
        before = dump(broker)
        assert self.send(broker, settlement, lease) == "ALREADY"
        assert dump(broker) == before


@pytest.mark.parametrize("kind", ["retry", "bury", "release"])
def test_an_asked_cancel_ends_the_record_whatever_its_worker_says(broker, kind):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    assert settle(broker, kind, lease) == "CANCELLED"
    assert read(broker, lease.id).state is State.CANCELLED
    assert places(broker, lease.id) == []
    before = dump(broker)
    assert settle(broker, kind, lease) == "CANCELLED"
    assert dump(broker) == before


def test_a_task_that_succeeded_though_asked_to_cancel_has_succeeded(broker):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    assert broker.complete(lease, RESULT) == "DONE"
    assert read(broker, lease.id).state is State.SUCCEEDED


def test_many_are_settled_and_new_ones_claimed_in_one_round_trip(broker, monkeypatch):
    put(broker, 6)
    leases = claim(broker, 5).leases
    settlements = [
        Complete(leases[0], RESULT),
        Retry(leases[1], HOUR, ERROR),
        Bury(leases[2], ERROR),
        Complete(Held(leases[3], token=1), RESULT),
        Release(leases[4], HOUR),
    ]
    broker.exchange(settlements[3:4], request(0))  # so that the server knows the scripts
    words, claimed = broker.exchange(settlements, request(1))
    assert words == ["DONE", "DONE", "DONE", "LEASE_LOST", "DONE"]
    assert [lease.id not in {one.id for one in leases} for lease in claimed.leases] == [True]


def test_words_come_in_the_order_of_the_settlements(broker):
    put(broker, 2000)
    leases = [lease for _ in range(2) for lease in claim(broker, 1000).leases]
    stale = {5, 999, 1000, 1501}
    settlements = []
    for index, lease in enumerate(leases):
        shown = Held(lease, token=1) if index in stale else lease
        settlements.append(Complete(shown, b"{}") if index % 2 else Retry(shown, HOUR, ERROR))
    words, claimed = broker.exchange(settlements, None)
    assert claimed is None
    assert {index for index, word in enumerate(words) if word == "LEASE_LOST"} == stale
    assert set(words) == {"DONE", "LEASE_LOST"}


def test_large_results_are_settled_in_several_calls(broker):
    put(broker, 7)
    leases = claim(broker, 7).leases
    large = b'{"result":"' + b"x" * 400_000 + b'"}'
    words, _ = broker.exchange([Complete(lease, large) for lease in leases], None)
    assert words == ["DONE"] * 7
    assert all(len(read(broker, lease.id).result) == 400_000 for lease in leases)


def test_the_batches_of_settlements_stay_below_a_mebibyte(broker):
    lease = Held(lease_one(broker))
    calls = list(_settle_calls([Complete(lease, b"x" * 400_000)] * 7 + [Retry(lease, 0, b"x" * 400_000)] * 2))
    sizes = [sum(len(part) for part in call.arguments if isinstance(part, bytes)) for call, _ in calls]
    assert max(sizes) <= 2**20
    assert sorted(position for _, positions in calls for position in positions) == list(range(9))


def test_nothing_to_exchange_asks_nothing(broker):
    broker.client.close()
    assert broker.exchange([], None) == ([], None)


def test_a_settled_record_frees_nothing_of_another(broker):
    new = record(key="k", key_ttl_ms=MINUTE)
    broker.enqueue([new])
    (lease,) = claim(broker).leases
    broker.client.set(broker.keys.idem("k"), "SOMEBODY")
    broker.bury(lease, ERROR)
    assert broker.client.get(broker.keys.idem("k")) == b"SOMEBODY"
    broker.client.delete(broker.keys.idem("k"))
