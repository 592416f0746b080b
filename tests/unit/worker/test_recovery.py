"""How the cases of dead children are worked through when something of one can't be dealt with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from django_taskq.broker.exceptions import BrokerError, BrokerUnavailable
from django_taskq.worker.board import Board
from django_taskq.worker.exceptions import WorkerLost
from django_taskq.worker.recovery import Recovery
from tests.unit.worker.fakes import FakeApplication, FakeBroker, make_lease


class Broker(FakeBroker):
    """Fails with what it was given for an id, or for a child's last claim."""

    client = keys = None

    def __init__(self):
        super().__init__()
        self.failures = {}

    def exchange(self, settlements, claim):
        for settlement in settlements:
            if failure := self.failures.get(settlement.lease.id):
                raise failure
        return super().exchange(settlements, claim)

    def claim(self, claim):
        if failure := self.failures.get(claim.child):
            raise failure
        return self.exchange((), claim)[1]


def dead_child(name, *leases):
    """Make a child that died with these leases, none of which had begun."""
    board = Board(max(1, len(leases)))
    board.nonce = 1
    for slot, lease in enumerate(leases):
        board.occupy(slot, lease)
    return SimpleNamespace(id=name, board=board, cause=WorkerLost, culprits=(), is_alone=False)


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def recovery(broker):
    settings = SimpleNamespace(lease=30.0, lease_ms=30_000)
    return Recovery(FakeApplication(broker), settings, SimpleNamespace(names=("default",)))


@pytest.mark.parametrize("failure", [ValueError("odd"), BrokerError("odd")])
@pytest.mark.parametrize("odd", ["id1", "worker.a"], ids=["lease", "claim"])
def test_one_that_cannot_be_dealt_with_holds_up_no_other(recovery, broker, odd, failure, caplog):
    broker.failures[odd] = failure
    for child in (dead_child("worker.a", make_lease(1), make_lease(2)), dead_child("worker.b", make_lease(3))):
        recovery.add(child)

    assert recovery.work() > 1

    given_back = {"id1", "id2", "id3"} - {odd}
    assert {settlement.lease.id for settlement in broker.settled} == given_back
    # What is on no board is renewed no more, so it lapses.
    assert recovery.is_finished
    assert recovery.boards == []
    assert "can't be dealt with" in caplog.text


def test_an_outage_leaves_everything_for_later(recovery, broker):
    child = dead_child("worker.a", make_lease(1))
    recovery.add(child)
    broker.failures["id1"] = BrokerUnavailable("away", maybe_executed=True)
    with pytest.raises(BrokerUnavailable):
        recovery.work()
    assert not child.board.is_empty

    broker.failures.clear()
    recovery.work()

    assert [settlement.lease.id for settlement in broker.settled] == ["id1"]
    assert recovery.is_finished
