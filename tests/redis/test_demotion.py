"""C28: after a failover the same address leads to another server, and pooled connections to the old one."""

from __future__ import annotations

import threading

import pytest
from django.test import override_settings

from django_taskq import EnqueueError, producer
from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.settlements import Complete
from tests.broker.helpers import RESULT, claim, put, record, request
from tests.redis.jobs import add, hold, note
from tests.redis.proxy import Proxy
from tests.rules import check_rules
from tests.settings import TASKS
from tests.waiting import wait_until


@pytest.fixture
def pair(new_server):
    """Start a primary and its replica."""
    primary, replica = new_server("--repl-diskless-sync-delay", "0"), new_server()
    _follow(replica, primary)
    return primary, replica


def _follow(replica, primary):
    with replica.client() as client:
        client.replicaof("127.0.0.1", primary.port)
        wait_until(lambda: client.info("replication").get("master_link_status") == "up", what="replica in sync")


@pytest.fixture
def address(pair):
    proxy = Proxy(pair[0].port)
    yield proxy
    clients.close_all()
    proxy.close()


def swap(pair, address):
    """Swap the roles under one address; connections to the old primary stay open."""
    primary, replica = pair
    with primary.client() as old, replica.client() as new:
        wait_until(lambda: old.info("replication").get("slave0", {}).get("lag") is not None)
        assert old.wait(1, 2000) == 1
        new.replicaof("NO", "ONE")
        old.replicaof("127.0.0.1", replica.port)
    address.target = replica.port


def test_c28_one_call_fails_clearly_and_the_next_reaches_the_new_primary(pair, address):
    broker = Broker.from_url(address.url)
    (before,) = put(broker)
    swap(pair, address)
    with pytest.raises(BrokerUnavailable, match="read only") as caught:
        broker.enqueue([record()])
    assert not caught.value.maybe_executed
    (after,) = put(broker)
    assert [lease.id for lease in claim(broker, 5).leases] == [before, after]


def test_c28_idle_connections_to_the_old_primary_are_dropped_too(pair, address):
    broker = Broker.from_url(address.url)
    _in_threads(5, lambda barrier: (broker.ping(), barrier.wait(), put(broker), barrier.wait()))
    swap(pair, address)
    with pytest.raises(BrokerUnavailable):
        put(broker)
    for _ in range(6):
        assert put(broker)
    failures = []
    _in_threads(5, lambda barrier: (barrier.wait(), _noting(failures, lambda: put(broker))))
    assert failures == []


def _in_threads(count, act):
    barrier = threading.Barrier(count, timeout=30)
    threads = [threading.Thread(target=act, args=[barrier]) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _noting(failures, call):
    try:
        call()
    except BrokerUnavailable as error:
        failures.append(error)


def test_c28_a_pipeline_drops_them_as_well(pair, address):
    broker = Broker.from_url(address.url)
    put(broker, 2)
    (lease,) = claim(broker).leases
    swap(pair, address)
    wanted = request(5)
    with pytest.raises(BrokerUnavailable):
        broker.exchange([Complete(lease, RESULT)], wanted)
    words, claimed = broker.exchange([Complete(lease, RESULT)], wanted)
    assert words == ["DONE"]
    assert len(claimed.leases) == 1


def test_c28_a_worker_that_waits_is_woken_and_then_waits_at_the_new_primary(pair, address):
    broker = Broker.from_url(address.url)
    broker.ping()
    outcomes = []
    waiting = threading.Thread(target=lambda: _noting(outcomes, lambda: outcomes.append(broker.wait(["q"], 5))))
    waiting.start()
    with pair[0].client() as client:
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
    swap(pair, address)
    waiting.join()
    assert [type(outcome) for outcome in outcomes] == [BrokerUnavailable]
    with pair[1].client() as client:
        put(Broker(client))
        assert broker.wait(["q"], 1) == "q"


@pytest.fixture
def served(pair, address, monkeypatch):
    """Let tasks be enqueued and run at the address."""
    monkeypatch.setenv("TASKQ_TEST_URL", address.url)
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"url": address.url}}}):
        yield
    producer._producers.clear()


@pytest.mark.usefixtures("served")
def test_c28_a_worker_goes_on_at_the_new_primary_with_what_it_held(
    pair, address, start_worker, ended, noted, notes, works
):
    held = hold.enqueue()
    worker = start_worker("--threads", "2", lease=5)
    noted("begin a")
    works()
    children = worker.children()

    swap(pair, address)

    with pytest.raises(EnqueueError, match="nothing was stored"):
        add.enqueue(1)
    producer._producers.clear()
    works()
    note("go")
    (record,) = ended(held)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert notes().count("begin a") == 1
    assert worker.children() == children
    assert worker.stop() == 0


def test_c28_a_read_at_the_old_primary_is_no_error(pair, address):
    broker = Broker.from_url(address.url)
    put(broker)
    swap(pair, address)
    assert Inspector(broker).counts()["q"].ready == 1
