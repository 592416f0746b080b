"""Workers that start, and what they say about the server they find."""

from __future__ import annotations

import pytest

from tests.redis.jobs import add, hold, note
from tests.rules import check_rules
from tests.servers import free_port
from tests.waiting import wait_until

#: Milliseconds.
LEASE = 2000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_c18_workers_that_start_at_once_recover_nothing_that_lives(start_worker, ended, noted, inspector, proxy):
    proxy.delay = 0.05
    results = [hold.enqueue(f"long {number}") for number in range(10)]
    results += add.enqueue_many([((number,), {}) for number in range(100)])

    workers = [start_worker("--threads", "2", lease=LEASE / 1000, TASKQ_TEST_URL=proxy.url) for _ in range(10)]

    noted(*(f"begin long {number}" for number in range(10)), timeout=40)
    held = {result.id: inspector.record(result.id).lease_ends_at for result in results[:10]}
    wait_until(
        lambda: all(inspector.record(each).lease_ends_at > ends_at + 2 * LEASE for each, ends_at in held.items()), 20
    )
    note("go")
    records = ended(*results, timeout=30)
    check_rules(records)
    assert {(record.state, record.attempts, record.releases) for record in records} == {("succeeded", 1, 0)}
    for word in ("has lapsed", "was lost", "Running"):
        assert not any(word in worker.log for worker in workers)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru"])
def test_c31_a_worker_names_an_eviction_policy_that_loses_tasks_and_serves(own_server, start_worker, works, policy):
    with own_server.client() as client:
        client.config_set("maxmemory-policy", policy)

    worker = start_worker()

    works()
    assert policy in worker.log
    assert "noeviction" in worker.log
    assert worker.stop() == 0


@pytest.mark.parametrize("policy", ["noeviction", "allkeys-lru"])
def test_c31_a_worker_that_may_not_ask_for_the_policy_serves_and_says_nothing(own_server, start_worker, works, policy):
    with own_server.client() as client:
        client.config_set("maxmemory-policy", policy)
        client.acl_setuser("app", enabled=True, nopass=True, keys=["{taskq}:*"], commands=["+@all", "-config", "-info"])

    worker = start_worker(TASKQ_TEST_URL=own_server.url.replace("://", "://app:x@"))

    works()
    assert "WARNING" not in worker.log
    assert worker.stop() == 0


def test_c31_a_worker_says_nothing_about_a_safe_policy(own_server, start_worker, works):
    worker = start_worker()

    works()
    assert "policy" not in worker.log
    assert worker.stop() == 0


def test_c35_a_worker_knocks_seldom_while_redis_is_away_and_resumes_by_itself(start_ready, proxy, works, inspector):
    """Redis is away for seven seconds; by then the pauses have grown to what they are after three minutes."""
    worker = start_ready("w", "--processes", "2", lease=3, TASKQ_TEST_URL=proxy.url)
    children = worker.children()
    there, proxy.target = proxy.target, free_port()
    proxy.cut()
    # The pauses have grown by then.
    passed(inspector, 3)
    before = proxy.opened
    passed(inspector, 4)

    assert 0 < proxy.opened - before < 50

    proxy.target = there
    works()
    assert worker.children() == children
    assert worker.stop() == 0


def passed(inspector, seconds):
    """Wait until so many seconds have passed on the server's clock."""
    started = inspector.broker.client.time()[0]
    wait_until(lambda: inspector.broker.client.time()[0] >= started + seconds, 60)
