"""A worker's connection breaks at each of its steps, before the server ran what was asked and after: nothing is lost
and nothing is run twice. The broker's side of it is in test_resend.py."""

from __future__ import annotations

import pytest

from django_taskq import EnqueueError, producer
from django_taskq.broker import client as clients
from django_taskq.broker import scripts
from django_taskq.broker.broker import Broker
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import NewRecord
from tests.redis import jobs
from tests.redis.proxy import Proxy
from tests.rules import check_rules
from tests.waiting import wait_until

#: What a worker sends, by the words of a test's name.
STEPS = {
    "claim": scripts.load("claim").sha,
    "wait": "BZPOPMIN",
    "complete": scripts.load("complete").sha,
    "retry": scripts.load("retry").sha,
    "bury": scripts.load("bury").sha,
    "release": scripts.load("release").sha,
    "renew": scripts.load("renew").sha,
    "expired": scripts.load("expired").sha,
    "heartbeat": scripts.load("heartbeat").sha,
    "queues": "SMEMBERS",
    "ping": "PING",
}


def lose(proxy, step, executed, how):
    (proxy.lose_reply_to if executed else proxy.lose_request)(STEPS[step].encode(), how)


@pytest.mark.parametrize("executed", [False, True], ids=["before", "after"])
def test_a_connection_cut_at_any_step_costs_nothing(
    executed, start_worker, ended, noted, notes, inspector, proxy, works
):
    held = jobs.hold.enqueue()
    worker = start_worker("--threads", "4", lease=1, TASKQ_TEST_URL=proxy.url)
    noted("begin a")
    works()
    children = worker.children()

    unknown = [f"U{number}" for number in range(len(STEPS))]
    for step, record_id in zip(STEPS, unknown, strict=True):
        lose(proxy, step, executed, "cut")
        results = jobs.add.enqueue(1), jobs.fail.enqueue()
        inspector.broker.enqueue([NewRecord(record_id, "default", Envelope("nowhere.unknown").to_bytes())])
        assert proxy.has_lost.wait(10), f"{step} was not sent"
        records = ended(*results)
        check_rules(records)
        assert [(record.state, record.attempts) for record in records] == [("succeeded", 1), ("dead", 3)], step
        wait_until(lambda record_id=record_id: is_given_back(inspector, record_id), what=f"{step}: given back")

    jobs.note("go")
    (record,) = ended(held)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert notes().count("begin a") == 1
    assert worker.children() == children
    assert worker.stop() == 0
    inspector.broker.cancel(unknown)


def is_given_back(inspector, record_id):
    """Tell whether what nobody here knows waits for another try, under the first token and without an attempt."""
    record = inspector.record(record_id)
    return (record.state, record.attempts, record.releases) == ("waiting", 0, 1)


@pytest.mark.slow
def test_a_request_or_a_reply_that_never_arrives_holds_up_a_worker_for_a_third_of_a_lease(
    redis_server, start_worker, ended
):
    """Each worker has a queue and a proxy of its own, so that all wait side by side. More: test_half_open.py."""
    steps = [("claim", False), ("claim", True), ("complete", True)]
    proxies = [Proxy(redis_server.port) for _ in steps]
    try:
        workers = [
            start_worker("--queues", f"q{number}", lease=3, TASKQ_TEST_ALL_QUEUES="1", TASKQ_TEST_URL=proxy.url)
            for number, proxy in enumerate(proxies)
        ]
        tasks = [jobs.add.using(queue_name=f"q{number}") for number in range(len(steps))]
        ended(*(task.enqueue(0) for task in tasks))
        for proxy, (step, executed) in zip(proxies, steps, strict=True):
            lose(proxy, step, executed, "hang")
        first = [task.enqueue(1) for task in tasks]
        for proxy, step in zip(proxies, steps, strict=True):
            assert proxy.has_lost.wait(10), step
        records = ended(*first, *(task.enqueue(2) for task in tasks), timeout=10)
        check_rules(records)
        assert {(record.state, record.attempts, record.releases) for record in records} == {("succeeded", 1, 0)}
        assert [worker.stop() for worker in workers] == [0] * len(workers)
    finally:
        for proxy in proxies:
            proxy.close()


@pytest.fixture
def enqueuing(redis_server, proxy, settings):
    """Let tasks be enqueued through the proxy; give what the server holds."""
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"url": proxy.url}}}
    jobs.add.enqueue(0)
    yield Inspector(Broker(redis_server.client()))
    producer._producers.clear()
    clients.close_all()


@pytest.mark.parametrize("executed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("script", ["known", "unknown"])
def test_c34_who_enqueues_over_a_connection_that_is_cut_learns_that_the_task_may_have_been_stored(
    executed, script, enqueuing, proxy
):
    if script == "unknown":
        enqueuing.broker.client.script_flush()
    task = jobs.add.using(idempotency_key="order 5")
    (proxy.lose_reply_to if executed else proxy.lose_request)(b"EVALSHA" if script == "known" else b"EVAL\r", "cut")

    with pytest.raises(EnqueueError, match="may have been stored") as caught:
        task.enqueue(1)

    assert caught.value.maybe_stored
    (record_id,) = caught.value.ids
    found = enqueuing.record(record_id)
    assert (found is not None) == executed
    producer._producers.clear()
    again = task.enqueue(1)
    assert (again.id == record_id) == executed
    assert len(enqueuing.listing("default", "ready")) == 2


def test_who_enqueues_where_nothing_listens_learns_that_nothing_was_stored(enqueuing, proxy):
    proxy.refuse()
    proxy.cut()

    with pytest.raises(EnqueueError, match="nothing was stored") as caught:
        jobs.add.enqueue_many([((number,), {}) for number in range(3)])

    assert not caught.value.maybe_stored
    assert [enqueuing.record(record_id) for record_id in caught.value.ids] == [None] * 3
    producer._producers.clear()
    proxy.accept()
    assert jobs.add.enqueue(1).enqueued_at is not None
