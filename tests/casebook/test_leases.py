"""Leases: kept while a task runs, whatever it does, and given up when somebody else has them.

C10 with connections that fell silent: tests/redis/test_half_open.py.
"""

from __future__ import annotations

import pytest

from django_taskq.broker.records import AttemptError, Claim
from tests.casebook import jobs
from tests.redis.jobs import note
from tests.rules import check_rules
from tests.waiting import wait_until

#: Milliseconds.
LEASE, HOUR = 1000, 3_600_000


def observe(inspector, results, milliseconds):
    """Look at running tasks for so long, and return every state, token and attempt that they were seen in."""
    broker = inspector.broker
    started = max(inspector.record(result.id).last_attempted_at for result in results)
    seen = set()

    def is_over():
        seconds, micros = broker.client.time()
        for result in results:
            record = inspector.record(result.id)
            seen.add((result.id, record.state, record.token, record.attempts))
        return seconds * 1000 + micros // 1000 - started > milliseconds

    wait_until(is_over, 60)
    return seen


def test_c01_a_task_of_six_leases_runs_once_beside_idle_workers(start_worker, ended, noted, notes, inspector):
    workers = [start_worker(lease=LEASE / 1000) for _ in range(4)]
    result = jobs.hold_or_lose.enqueue()
    noted("begin a 1")
    token = inspector.record(result.id).token

    seen = observe(inspector, [result], 6 * LEASE)

    assert seen == {(result.id, "leased", token, 1)}
    note("go a")
    (record,) = ended(result)
    check_rules([record])
    assert (record.token, record.result) == (token, 1)
    assert notes().count("begin a 1") == 1
    assert not any("has lapsed" in worker.log for worker in workers)


def test_c15_a_time_limit_longer_than_the_lease_or_none_is_respected(start_worker, ended, noted, notes, inspector):
    results = [jobs.hold_with_limit.enqueue("limited"), jobs.hold_without_limit.enqueue("unlimited")]
    workers = [start_worker(lease=LEASE / 1000) for _ in range(2)]
    noted("begin limited", "begin unlimited")

    seen = observe(inspector, results, 4 * LEASE)

    assert {(state, attempts) for _, state, _, attempts in seen} == {("leased", 1)}
    note("go")
    records = ended(*results)
    check_rules(records)
    assert [(record.state, record.attempts) for record in records] == [("succeeded", 1)] * 2
    assert not any("has lapsed" in worker.log or "Killing" in worker.log for worker in workers)


def test_c10_outages_of_half_a_lease_cost_nothing(start_worker, ended, noted, notes, inspector, proxy):
    worker = start_worker(lease=LEASE / 1000, TASKQ_TEST_URL=proxy.url)
    result = jobs.hold_or_lose.enqueue()
    noted("begin a 1")
    reaper = start_worker(lease=LEASE / 1000)
    wait_until(reaper.children)
    observe(inspector, [result], LEASE)

    proxy.refuse()
    proxy.cut()
    passed(inspector, LEASE / 2)
    proxy.accept()
    passed(inspector, 2 * LEASE)
    proxy.hold()
    passed(inspector, LEASE / 2)
    proxy.release()

    seen = observe(inspector, [result], 6 * LEASE)
    assert {(state, attempts) for _, state, _, attempts in seen} == {("leased", 1)}
    note("go a")
    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts, record.result) == ("succeeded", 1, 1)
    assert "lost a" not in notes()
    assert "Redis answers again" in worker.log


def passed(inspector, milliseconds):
    """Wait until so much of the server's time has passed."""
    started = inspector.broker.client.time()

    def is_over():
        seconds, micros = inspector.broker.client.time()
        return (seconds - started[0]) * 1000 + (micros - started[1]) / 1000 >= milliseconds

    wait_until(is_over, 60)


def test_c10_a_task_hears_that_an_outage_took_its_lease_and_does_not_undo_its_successor(
    start_worker, ended, noted, notes, inspector, proxy, works
):
    loser = start_worker(lease=LEASE / 1000, TASKQ_TEST_URL=proxy.url)
    result = jobs.hold_or_lose.enqueue()
    noted("begin a 1")
    start_worker(lease=LEASE / 1000)

    proxy.refuse()
    proxy.cut()
    noted("lost a", "begin a 2")
    proxy.accept()
    note("end a")
    wait_until(lambda: "doesn't count" in loser.log)

    assert inspector.record(result.id).state == "leased"
    note("go a")
    (record,) = ended(result)
    check_rules([record])
    assert (record.attempts, record.result) == (2, 2)
    assert record.history[0].error.reason == "lease expired"
    assert loser.process.poll() is None


@pytest.mark.parametrize("then", ["return", "raise"])
def test_c12_whatever_a_task_does_after_its_lease_was_lost_changes_nothing(then, start_worker, noted, inspector, works):
    result = jobs.hold_or_lose.enqueue("a", then)
    worker = start_worker("--threads", "1", lease=LEASE / 1000)
    noted("begin a 1")
    take_over(inspector, result)
    noted("lost a")
    before = inspector.record(result.id)

    note("end a")

    wait_until(lambda: "doesn't count" in worker.log)
    works()
    after = inspector.record(result.id)
    assert after == before
    assert (after.state, after.attempts, after.worker, len(after.history)) == ("leased", 2, "another.child", 1)
    counts = inspector.counts()["default"]
    assert (counts.ready, counts.scheduled, counts.leased, counts.dead) == (0, 0, 1, 0)
    assert worker.log.count("was lost while it ran") == 1
    assert worker.log.count("doesn't count") == 1
    assert worker.stop() == 0


def take_over(inspector, result):
    """Let the lease of a running task lapse, reap it and claim it for another worker, whose lease is long."""
    broker = inspector.broker
    record = inspector.record(result.id)
    error = AttemptError("taken", "over").to_json()

    class Held:
        id, queue, token = record.id, record.head.queue, record.token

    def is_reaped():
        broker.client.zadd(broker.keys.leased("default"), {record.id: 1}, xx=True)
        return broker.retry(Held, 0, error, lapsed=True) in ("DONE", "ALREADY")

    wait_until(is_reaped)
    (lease,) = broker.claim(Claim("another.child", 1, 1, HOUR, ("default",))).leases
    assert lease.id == record.id
    assert lease.token > record.token
