"""Every call of the broker and the inspector once, for servers that are reached in an unusual way."""

from __future__ import annotations

from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.listing import MergedListing
from django_taskq.broker.records import State
from django_taskq.broker.settlements import Bury, Complete, Release, Retry
from tests.broker.helpers import ERROR, HOUR, MINUTE, RESULT, lapse, make_due, record, request, score


def main_flow(broker: Broker, hands: Broker) -> None:
    """Drive records through every transition; `hands` may write what no client writes, to move times."""
    broker.ping()
    _enqueue_and_wait(broker)
    leases = _claim_and_settle(broker, hands)
    _reap(broker, hands)
    _by_hand(broker, hands, leases)
    _inspect(broker)
    broker.server_warnings()


def _enqueue_and_wait(broker: Broker) -> None:
    first, duplicate = record(key="k", key_ttl_ms=HOUR), record(key="k", key_ttl_ms=HOUR, record_alias="default")
    answers = broker.enqueue([first, duplicate, record(priority=5), record(), record(delay_ms=HOUR)])
    assert [answer.word for answer in answers] == ["STORED", "TAKEN", "STORED", "STORED", "STORED"]
    assert broker.enqueue([first, duplicate])[0].word == "EXISTS"
    assert broker.wait(["other", "q"], 1) == "q"
    assert broker.wait(["other", "q"], 0.02) is None
    broker.arm("q")
    assert broker.wait(["q"], 1) == "q"
    assert Inspector(broker).record(duplicate.id).id == first.id


def _claim_and_settle(broker: Broker, hands: Broker) -> list[str]:
    wanted = request(2)
    leases = broker.claim(wanted).leases
    assert [lease.id for lease in broker.claim(wanted).leases] == [lease.id for lease in leases]
    assert broker.renew([(lease.id, lease.queue, lease.token) for lease in leases], MINUTE) == ["OK", "OK"]
    hands.client.script_flush()
    words, claimed = broker.exchange([Complete(leases[0], RESULT), Release(leases[1], unknown=True)], request(2))
    assert words == ["DONE", "DONE"]
    assert len(claimed.leases) == 2
    again = claimed.leases
    words, _ = broker.exchange([Retry(again[0], HOUR, ERROR), Bury(again[1], ERROR)], None)
    assert words == ["DONE", "DONE"]
    assert Inspector(broker).record(leases[0].id).result == 42
    return [lease.id for lease in again]


def _reap(broker: Broker, hands: Broker) -> None:
    broker.enqueue([record("r"), record("r")])
    leases = broker.claim(request(2, ["r"])).leases
    lapse(hands, *leases)
    found = broker.expired(["q", "r"]).leases
    assert sorted(lease.id for lease in found) == sorted(lease.id for lease in leases)
    for lease in found:
        assert broker.retry(lease, 0, ERROR, lapsed=True) == "DONE"
    broker.cancel([leases[0].id])
    (lease,) = broker.claim(request(1, ["r"])).leases
    assert lease.attempt == 2
    assert broker.cancel([lease.id]) == ["ASKED"]
    assert broker.renew([(lease.id, "r", lease.token)], MINUTE) == ["CANCEL"]
    assert broker.retry(lease, 0, ERROR) == "CANCELLED"


def _by_hand(broker: Broker, hands: Broker, ids: list[str]) -> None:
    scheduled, dead = ids
    assert broker.promote(scheduled) == "DONE"
    assert broker.requeue([(dead, score(hands, dead, "dead"), HOUR)]) == ["DONE"]
    make_due(hands, dead)
    (first, second) = broker.claim(request(2)).leases
    assert {first.id, second.id} == {scheduled, dead}
    assert broker.bury(first, ERROR) == "DONE"
    assert broker.discard([(first.id, score(hands, first.id, "dead"))]) == ["DONE"]
    assert broker.release(second, MINUTE, floor=second.token + 1, keep=True) == "DONE"
    orphan = record("o")
    broker.enqueue([orphan])
    hands.client.delete(hands.keys.task(orphan.id))
    assert list(broker.claim(request(1, ["o"])).leases) == []


def _inspect(broker: Broker) -> None:
    inspector = Inspector(broker)
    assert inspector.queues() == ["o", "q", "r"]
    counts = inspector.counts()
    assert (counts["q"].scheduled, counts["q"].leased, counts["q"].dead, counts["r"].ready) == (2, 0, 0, 0)
    ids = [record_id for record_id, _ in inspector.listing("q", "scheduled")]
    assert len(inspector.listing("q", "scheduled")) == 2
    assert [found.state for found in inspector.records(ids)] == [State.WAITING] * 2
    assert len(inspector.summaries(ids)[1]) == 2
    assert broker.states(ids) == ["waiting"] * 2
    seen = broker.repaired("default", "", "mark")
    assert seen.marks == broker.repaired().marks == {"default": "mark"}
    merged = MergedListing(broker, "scheduled", ["q", "r"])
    assert [entry.id for entry in merged.page(0, 5)] == ids
    assert broker.heartbeat("worker", {"pid": 1}, MINUTE) == 1
    assert [worker["name"] for worker in inspector.workers()] == ["worker"]
    assert broker.heartbeat("worker", {}, MINUTE) == 0
