"""The moment between a run's end and its settling, hit on purpose: the run is repeated, and counted."""

from __future__ import annotations

import os
import signal

import pytest

from django_taskq.broker import scripts
from tests.processes import is_alive
from tests.redis.jobs import hold, note
from tests.rules import check_rules
from tests.waiting import wait_until

COMPLETE = scripts.load("complete").sha.encode()


@pytest.mark.parametrize("arrives", ["never", "late"])
def test_a_child_killed_between_run_and_settle_has_its_task_run_again_and_counted(
    arrives, start_worker, ended, noted, notes, inspector, proxy, works
):
    """Its last words may arrive when the task is another's already, and then change nothing."""
    result = hold.enqueue()
    worker = start_worker("--threads", "1", lease=10, TASKQ_TEST_URL=proxy.url)
    noted("begin a")
    (child,) = worker.children()
    before = inspector.record(result.id)
    proxy.lose_request(COMPLETE, "hang")
    note("go")
    assert proxy.has_lost.wait(10)
    assert notes() == ["begin a", "go", "end a"]
    assert inspector.record(result.id).state == "leased"

    os.kill(child, signal.SIGKILL)

    if arrives == "late":
        wait_until(lambda: inspector.record(result.id).attempts == 2)
        proxy.deliver()
    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert record.history[0].error.reason == "worker lost"
    assert record.history[1].token == record.token > before.token
    assert notes() == ["begin a", "go", "end a", "begin a", "end a"]
    works()
    assert worker.stop() == 0


def test_a_worker_killed_between_run_and_settle_has_its_task_run_elsewhere_and_counted(
    start_worker, start_ready, ended, noted, notes, proxy
):
    result = hold.enqueue()
    worker = start_worker("--threads", "1", lease=1, TASKQ_TEST_URL=proxy.url)
    noted("begin a")
    (child,) = worker.children()
    start_ready("other", lease=1)
    proxy.lose_request(COMPLETE, "hang")
    note("go")
    assert proxy.has_lost.wait(10)

    worker.kill_group()
    wait_until(lambda: not is_alive(child))

    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert record.history[0].error.reason == "lease expired"
    assert notes() == ["begin a", "go", "end a", "begin a", "end a"]


@pytest.mark.parametrize("arrives", ["never", "late"])
def test_a_settling_that_is_held_up_beyond_the_lease_is_repeated_until_it_is_heard(
    arrives, start_worker, ended, noted, notes, proxy
):
    """Nobody died: its lease is renewed meanwhile, and the first request changes nothing if it arrives."""
    result = hold.enqueue()
    worker = start_worker("--threads", "1", lease=1, TASKQ_TEST_URL=proxy.url)
    noted("begin a")
    proxy.lose_request(COMPLETE, "hang")
    note("go")
    assert proxy.has_lost.wait(10)
    if arrives == "late":
        wait_until(lambda: "trying again" in worker.log)
        proxy.deliver()

    (record,) = ended(result)

    check_rules([record])
    assert (record.state, record.attempts, len(record.history)) == ("succeeded", 1, 1)
    assert notes() == ["begin a", "go", "end a"]
    assert worker.stop() == 0
