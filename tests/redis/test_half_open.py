"""Connections whose other end vanished without a farewell: bytes go nowhere, and nobody says so."""

from __future__ import annotations

import threading
import time

import pytest

from django_taskq import EnqueueError, producer
from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from tests.broker.helpers import put, record
from tests.casebook.jobs import hold_or_lose
from tests.redis.jobs import add, note
from tests.rules import check_rules
from tests.waiting import SLACK

#: Seconds after which a blocked wait is given up.
WAIT = clients.SOCKET_TIMEOUT + clients.LONGEST_WAIT


@pytest.fixture(autouse=True)
def forget_outages():
    """Let no test wait for the outage that another met."""
    yield
    producer._producers.clear()
    clients.close_all()


def test_one_call_finds_out_and_the_other_idle_connections_are_not_tried(proxy):
    """Five threads of a server each left a connection behind; its peer is gone, and only the first call waits."""
    broker = Broker.from_url(proxy.url, timeout=1)
    barrier = threading.Barrier(5, timeout=30)
    in_threads(5, lambda: (barrier.wait(), broker.ping(), put(broker), barrier.wait()))
    proxy.silence()
    new = record()
    with pytest.raises(BrokerUnavailable) as caught:
        broker.enqueue([new])
    assert caught.value.maybe_executed

    in_threads(5, lambda: (barrier.wait(), put(broker), broker.ping()))

    assert broker.enqueue([new])[0].word == "STORED"


def in_threads(count, act):
    failures = []

    def run():
        try:
            act()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_who_enqueues_is_told_in_time_that_the_task_may_have_been_stored(proxy, settings):
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"url": proxy.url}}}
    hasty = producer.Producer(Broker.from_url(proxy.url, timeout=1))
    producer._producers[proxy.url, "taskq"] = hasty
    add.enqueue(0)
    proxy.silence()
    begun = time.monotonic()

    with pytest.raises(EnqueueError, match="may have been stored") as caught:
        add.enqueue(1)

    assert time.monotonic() - begun < clients.SOCKET_TIMEOUT
    assert caught.value.maybe_stored
    hasty._outage = None
    assert add.enqueue(2).enqueued_at is not None


@pytest.mark.slow
def test_c10_a_worker_finds_out_by_itself_renews_in_time_and_goes_on(
    start_worker, start_ready, ended, noted, notes, inspector, proxy, works
):
    """Beside one that would reap what lapses."""
    lease = 4
    result = hold_or_lose.enqueue()
    worker = start_worker("--threads", "2", lease=lease, TASKQ_TEST_URL=proxy.url)
    noted("begin a 1")
    works()
    children = worker.children()
    start_ready("reaper", "--queues", "mail", lease=lease)

    proxy.silence()

    # The wait is given up first, and then the claim: that takes several leases.
    works(timeout=WAIT + lease / 3 + SLACK)
    record = inspector.record(result.id)
    assert (record.state, record.attempts, "lost a" in notes()) == ("leased", 1, False)
    note("go a")
    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert worker.children() == children
    assert worker.stop() == 0


@pytest.mark.slow
def test_a_machine_that_vanished_while_it_waited_delays_the_next_task_by_one_wait_at_most(start_ready, ended, proxy):
    """Redis sees its connection open, and gives it the marker that another would have claimed by."""
    vanishing = start_ready("vanishing", lease=2, TASKQ_TEST_URL=proxy.url)
    start_ready("other", lease=2)
    proxy.hold()
    vanishing.kill_group()

    results = []
    for number in range(3):
        results.append(add.enqueue(number))
        ended(*results, timeout=clients.LONGEST_WAIT + SLACK)

    records = ended(*results)
    check_rules(records)
    assert {(record.state, record.attempts) for record in records} == {("succeeded", 1)}
