"""Time limits, losing a lease, and being asked to end."""

from __future__ import annotations

import pytest

from tests.redis import jobs
from tests.waiting import SLACK, wait_until


@pytest.mark.parametrize(
    ("task", "arguments"), [(jobs.overrun, ["loop"]), (jobs.aoverrun, [])], ids=["function", "coroutine"]
)
def test_c82_a_task_that_runs_too_long_gets_an_exception(task, arguments, start_worker, ended):
    result = task.enqueue(*arguments)

    worker = start_worker()

    (record,) = ended(result)
    assert record.state == "dead"
    assert record.history[0].error.error == "django_taskq.worker.exceptions.TaskTimeout"
    assert record.history[0].ended_at - record.history[0].started_at < 1500
    assert "Killing" not in worker.log


def test_c82_a_task_that_swallows_the_exception_and_returns_keeps_its_result(start_worker, ended):
    result = jobs.overrun.enqueue("swallow")

    start_worker()

    (record,) = ended(result)
    assert (record.state, record.result) == ("succeeded", "in time")


def test_c82_a_task_that_cannot_be_interrupted_is_killed_after_the_grace_and_its_neighbour_is_not_blamed(
    start_worker, ended, noted, notes
):
    late = jobs.overrun.enqueue("sleep")
    neighbour = jobs.hold.enqueue()
    start_worker("--threads", "2", lease=1)
    noted("begin a", "begin sleep")

    (record,) = ended(late)
    wait_until(lambda: notes().count("begin a") == 2)
    jobs.note("go")
    (spared,) = ended(neighbour)

    assert (record.state, record.attempts) == ("dead", 1)
    assert record.history[0].error.reason == "time limit"
    assert 5000 < record.history[0].ended_at - record.history[0].started_at < 7500 + SLACK * 1000
    assert (spared.state, spared.attempts) == ("succeeded", 1)


def test_a_task_hears_that_it_was_asked_to_end_and_is_cancelled(start_worker, ended, noted, notes, inspector):
    result = jobs.tell_lease.enqueue()
    start_worker(lease=1)
    noted("begin 1")

    assert inspector.broker.cancel([result.id]) == ["ASKED"]

    noted("cancelled")


def test_c12_a_task_hears_that_its_lease_was_lost_and_changes_nothing(start_worker, noted, inspector):
    result = jobs.tell_lease.enqueue()
    worker = start_worker(lease=1)
    noted("begin 1")
    before = inspector.record(result.id)

    # As a reaper would after a pause of this worker: under the same token, which so is used up.
    inspector.broker.bury(_lease(before), b'{"error": "X"}')

    noted("lost")
    wait_until(lambda: "was lost, so its complete doesn't count" in worker.log)
    after = inspector.record(result.id)
    assert (after.state, after.attempts, len(after.history)) == ("dead", 1, 1)
    assert worker.stop() == 0


def _lease(record):
    class Holding:
        id, queue, token = record.id, record.head.queue, record.token

    return Holding


def test_c82_all_that_sleep_beyond_their_limit_fail_together(start_worker, ended):
    results = jobs.overrun.enqueue_many([(("sleep",), {})] * 4)

    start_worker("--threads", "4")

    records = ended(*results)
    assert {(record.state, record.attempts) for record in records} == {("dead", 1)}


def test_a_coroutine_that_leaves_the_shared_thread_stuck_is_killed_after_the_grace(start_worker, ended, noted):
    result = jobs.block_shared_thread.enqueue()

    start_worker(lease=1)
    noted("begin")

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("dead", 1)
    assert record.history[0].error.reason == "time limit"
