"""A failover by Sentinel while something is on its way to the master: who asked learns that the outcome is unknown,
and repeats it; workers find the new master by themselves."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
import redis
from django.test import override_settings

from django_taskq import EnqueueError, producer
from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from tests.broker.helpers import RESULT, claim, claim_ids, put, record
from tests.redis.jobs import add, hold, note
from tests.redis.topologies import Sentinels
from tests.rules import check_rules
from tests.settings import TASKS
from tests.waiting import wait_until

#: Seconds that a failover may take.
PATIENCE = 40


@pytest.fixture
def servers(new_server):
    """Start a master and two replicas of it."""
    master = new_server("--repl-diskless-sync-delay", "0")
    follow = "--replicaof", f"127.0.0.1 {master.port}"
    return [master, *(new_server("--repl-diskless-sync-delay", "0", *follow) for _ in range(2))]


@pytest.fixture
def url(servers):
    """Give the address of the service that three sentinels watch."""
    sentinels = Sentinels(servers[0].binary, servers[0], replicas=2)
    yield f"sentinel://{sentinels.hosts}/mymaster/0"
    clients.close_all()
    producer._producers.clear()
    sentinels.close()


@pytest.fixture
def served_url(url, monkeypatch):
    """Let tasks be enqueued and run there."""
    monkeypatch.setenv("TASKQ_TEST_URL", url)
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"url": url}}}):
        yield url


def role(server):
    """Return what it is; a sentinel that changes that ends its connections."""
    with server.client() as client, suppress(redis.ConnectionError):
        return client.role()[0].decode()


def replicate(broker):
    """Wait until both replicas have what was written; WAIT goes by what its own connection saw last."""
    with broker.client.pipeline(transaction=False) as pipeline:
        assert pipeline.ping().wait(2, 5000).execute()[-1] == 2


def works(call):
    try:
        return call()
    except (BrokerUnavailable, EnqueueError):
        return None


def test_what_was_on_its_way_to_the_old_master_is_unknown_and_can_be_repeated(servers, url):
    """The old master stands still with the requests in its socket, is replaced, and executes them too late."""
    # Each has a connection of its own, and it is open.
    broker, worker = Broker.from_url(url, timeout=1), Broker.from_url(url, timeout=1.1)
    (before,) = put(broker)
    (lease,) = claim(worker).leases
    replicate(broker)
    new = record()
    servers[0].pause()
    unknown = []

    def note_failure(call):
        with pytest.raises(BrokerUnavailable) as caught:
            call()
        unknown.append(caught.value.maybe_executed)

    asking = [
        threading.Thread(target=note_failure, args=[lambda: broker.enqueue([new])]),
        threading.Thread(target=note_failure, args=[lambda: worker.complete(lease, RESULT)]),
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert unknown == [True, True]

    (answer,) = wait_until(lambda: works(lambda: broker.enqueue([new])), PATIENCE, "the new master")
    servers[0].resume()
    assert answer.word == "STORED"
    assert worker.complete(lease, RESULT) == "DONE"
    assert broker.enqueue([new])[0].word == "EXISTS"
    assert claim_ids(broker, 5) == [new.id]
    assert before == lease.id


@pytest.mark.slow
def test_workers_find_the_new_master_and_tell_it_what_ended_meanwhile(
    servers, served_url, start_worker, ended, noted, notes
):
    workers = [start_worker("--threads", "2", lease=20) for _ in range(2)]
    broker = Broker.from_url(served_url)
    held = [hold.enqueue("a", "go"), hold.enqueue("b", "go on")]
    noted("begin a", "begin b")
    children = [wait_until(worker.children) for worker in workers]
    replicate(broker)

    servers[0].stop()
    with pytest.raises(EnqueueError) as caught:
        add.enqueue(1)
    note("go")
    noted("end a")
    producer._producers.clear()
    after = wait_until(lambda: works(lambda: add.enqueue(2)), PATIENCE, "the new master")
    note("go on")

    assert len(caught.value.ids) == 1
    records = ended(*held, after)
    check_rules(records)
    assert {(record.state, record.attempts) for record in records} == {("succeeded", 1)}
    assert (notes().count("begin a"), notes().count("begin b")) == (1, 1)
    assert [worker.children() for worker in workers] == children
    assert [worker.stop() for worker in workers] == [0, 0]
    assert {role(server) for server in servers[1:]} == {"master", "slave"}
