from __future__ import annotations

import pytest

from tests.broker.helpers import HOUR, MINUTE, claim, dump, lapse, lease_one, now, put, score, settle


def test_a_held_lease_is_pushed_further(broker):
    lease = lease_one(broker)
    moment = now(broker)
    assert broker.renew([(lease.id, lease.queue, lease.token)], HOUR) == ["OK"]
    assert moment + HOUR <= score(broker, lease.id, "leased") <= now(broker) + HOUR


def test_a_lapsed_lease_that_nobody_took_is_renewed(broker):
    lease = lease_one(broker)
    lapse(broker, lease, ago=HOUR)
    assert broker.renew([(lease.id, lease.queue, lease.token)], MINUTE) == ["OK"]
    assert score(broker, lease.id, "leased") > now(broker)
    assert list(broker.expired(["q"]).leases) == []


def test_a_lease_whose_cancel_was_asked_says_so_and_goes_on(broker):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    assert broker.renew([(lease.id, lease.queue, lease.token)], HOUR) == ["CANCEL"]
    assert score(broker, lease.id, "leased") > now(broker) + HOUR - MINUTE


@pytest.mark.parametrize("end", ["complete", "retry", "bury", "release"])
def test_a_settled_lease_is_lost(broker, end):
    lease = lease_one(broker)
    settle(broker, end, lease)
    before = dump(broker)
    assert broker.renew([(lease.id, lease.queue, lease.token)], HOUR) == ["LOST"]
    assert dump(broker) == before


def test_a_lease_that_another_took_over_is_lost(broker):
    lease = lease_one(broker)
    broker.release(lease)
    (other,) = claim(broker, child="other.child").leases
    before = dump(broker)
    assert broker.renew([(lease.id, lease.queue, lease.token)], HOUR) == ["LOST"]
    assert dump(broker) == before
    assert broker.renew([(other.id, other.queue, other.token)], HOUR) == ["OK"]


def test_a_token_of_the_future_holds_nothing(broker):
    lease = lease_one(broker)
    assert broker.renew([(lease.id, lease.queue, lease.token + 1)], HOUR) == ["LOST"]


def test_what_was_never_there_is_lost_and_not_made(broker):
    assert broker.renew([("NOBODY", "q", 5)], HOUR) == ["LOST"]
    assert dump(broker) == {}


def test_a_lease_that_is_in_no_set_is_lost(broker):
    lease = lease_one(broker)
    broker.client.delete(broker.keys.leased("q"))
    assert broker.renew([(lease.id, lease.queue, lease.token)], HOUR) == ["LOST"]
    assert not broker.client.exists(broker.keys.leased("q"))
    broker.client.zadd(broker.keys.leased("q"), {lease.id: 1})


def test_many_leases_of_many_queues_are_answered_in_their_order(broker):
    put(broker, 1001, queue="a")
    put(broker, 1, queue="b")
    leases = [*claim(broker, 1001, queues=["a"]).leases, *claim(broker, 1, queues=["b"]).leases]
    broker.complete(leases[3], b"{}")
    broker.cancel([leases[1001].id])
    words = broker.renew([(lease.id, lease.queue, lease.token) for lease in leases], HOUR)
    assert len(words) == 1002
    assert {index: word for index, word in enumerate(words) if word != "OK"} == {3: "LOST", 1001: "CANCEL"}


def test_nothing_to_renew_asks_nothing(broker):
    broker.client.close()
    assert broker.renew([], HOUR) == []
