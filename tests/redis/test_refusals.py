"""Redis is there and says no: workers wait, what runs keeps its lease, and who enqueues is told that nothing was
stored. The words on their own are in test_errors.py, memory per script in test_memory.py."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import pytest
import redis

from django_taskq import EnqueueError, producer
from django_taskq.broker.exceptions import BrokerUnavailable, OutOfMemory
from tests.redis.jobs import add, fail, hold, note
from tests.rules import check_rules
from tests.servers import free_port
from tests.waiting import wait_until

#: Seconds; no trouble here lasts as long.
LEASE = 6.0
#: Seconds that the trouble lasts, at least.
TROUBLE = LEASE / 3

#: One that comes back with a copy, as only such a one takes its time to load.
pytestmark = pytest.mark.parametrize("own_server", [("--dbfilename", "copy.rdb")], indirect=True, ids=["own"])


@pytest.fixture(autouse=True)
def forget_outages():
    """Let no test wait for the outage that another met."""
    yield
    producer._producers.clear()


@contextlib.contextmanager
def busy(server):
    """Let another's script spin."""
    with server.client() as client, server.client() as other:
        client.config_set("lua-time-limit", 1)
        spinning = threading.Thread(target=_until_killed, args=(other,))
        spinning.start()
        wait_until(lambda: "busy" in refusal(client))
        yield "busy"
        client.script_kill()
        spinning.join()


def _until_killed(client):
    with contextlib.suppress(redis.ResponseError):
        client.eval("while true do end", 0)


@contextlib.contextmanager
def loading(server):
    """Let it load what it holds, slowly, until that was long enough."""
    padding = {f"padding{index}": os.urandom(500) for index in range(1000)}
    with server.client() as client:
        client.mset(padding)
        client.save()
        server.stop()
        server.options += ("--key-load-delay", "40000", "--loading-process-events-interval-bytes", "1024")
        server.start()
        try:
            yield "loading"
        finally:
            client.config_set("key-load-delay", 0)
            wait_until(lambda: not refusal(client))
            client.delete(*padding)


@contextlib.contextmanager
def readonly(server):
    """Let it follow a primary that isn't there."""
    with server.client() as client:
        client.replicaof("127.0.0.1", free_port())
        yield "read only"
        client.replicaof("NO", "ONE")


@contextlib.contextmanager
def lonely(server):
    """Let it miss a replica that it mustn't do without."""
    with server.client() as client:
        client.config_set("min-replicas-to-write", 1)
        yield "replicas"
        client.config_set("min-replicas-to-write", 0)


def refusal(client):
    try:
        client.delete("nothing")
    except redis.RedisError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("trouble", [busy, loading, readonly, lonely])
def test_a_server_that_refuses_for_a_third_of_a_lease_costs_nothing(
    trouble, own_server, start_worker, ended, noted, notes, works
):
    held = [hold.enqueue("a", "go"), hold.enqueue("b", "go on")]
    worker = start_worker("--threads", "4", lease=LEASE)
    noted("begin a", "begin b")
    works()
    children = worker.children()

    with trouble(own_server) as word:
        began = time.monotonic()
        with pytest.raises(EnqueueError, match="nothing was stored") as caught:
            add.enqueue(1)
        assert word in str(caught.value)
        assert not caught.value.maybe_stored
        assert isinstance(caught.value.__cause__, BrokerUnavailable)
        note("go")
        noted("end a")
        wait_until(lambda: time.monotonic() - began > TROUBLE)
    note("go on")

    producer._producers.clear()
    records = ended(*held)
    check_rules(records)
    assert [(record.state, record.attempts) for record in records] == [("succeeded", 1)] * 2
    assert (notes().count("begin a"), notes().count("begin b")) == (1, 1)
    works()
    assert worker.children() == children
    assert worker.stop() == 0


def test_a_worker_that_starts_while_redis_loads_its_data_waits_for_it(own_server, start_worker, ended):
    result = add.enqueue(1)

    with loading(own_server):
        worker = start_worker(lease=LEASE)
        wait_until(lambda: "loading" in worker.log)

    check_rules(ended(result))
    assert worker.stop() == 0


def test_when_memory_is_full_work_in_hand_ends_and_nothing_new_is_taken(
    own_server, start_worker, ended, noted, notes, inspector, works
):
    """Leases are renewed, what was ready is claimed and run, and attempts fail, are repeated and buried."""
    running = hold.enqueue()
    worker = start_worker("--threads", "2", lease=1)
    noted("begin a")
    works()
    blocked = hold.enqueue("b", "go b")
    noted("begin b")
    ready = [add.enqueue(1), fail.enqueue(), add.using(priority=5).enqueue(2)]

    with own_server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        with pytest.raises(EnqueueError, match="nothing was stored") as caught:
            add.enqueue(3)
        assert isinstance(caught.value.__cause__, OutOfMemory)
        ends_at = inspector.record(running.id).lease_ends_at
        wait_until(lambda: inspector.record(running.id).lease_ends_at > ends_at + 2000, what="renewed, two leases long")
        note("go b")
        records = ended(blocked, *ready)
        note("go")
        records += ended(running)
        with pytest.raises(redis.OutOfMemoryError):
            client.set("x", "y")
        client.config_set("maxmemory", 0)

    check_rules(records)
    assert [record.state for record in records] == ["succeeded", "succeeded", "dead", "succeeded", "succeeded"]
    assert [record.attempts for record in records] == [1, 1, 3, 1, 1]
    works()
    assert worker.stop() == 0


def test_a_worker_that_stops_while_memory_is_full_gives_back_what_it_holds(own_server, start_worker, noted, inspector):
    running = hold.enqueue()
    worker = start_worker("--shutdown-timeout", "0.2", lease=30)
    noted("begin a")

    with own_server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        assert worker.stop() == 5
        client.config_set("maxmemory", 0)

    record = inspector.record(running.id)
    assert (record.state, record.attempts) == ("waiting", 0)
