"""Tasks run in real processes, on a real server."""

from __future__ import annotations

import pytest

from tests.redis import jobs


def test_functions_and_coroutines_run_and_their_results_are_kept(start_worker, ended):
    results = [jobs.add.enqueue(1, b=2), jobs.aadd.enqueue(3, b=4)]

    start_worker()
    ended(*results)

    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [3, 7]
    assert [result.attempts for result in results] == [1, 1]


def test_burst_ends_when_everything_has_ended(start_worker, ended):
    results = jobs.add.enqueue_many([((number,), {}) for number in range(200)])

    worker = start_worker("--burst", "--processes", "2")

    assert worker.wait() == 0
    assert {record.state for record in ended(*results, timeout=0)} == {"succeeded"}


def test_a_failing_task_is_retried_and_becomes_a_dead_letter(start_worker, ended):
    result = jobs.fail.enqueue("out of luck")

    start_worker()

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("dead", 3)
    assert [attempt.error.message for attempt in record.history] == ["out of luck"] * 3
    assert "tests/redis/jobs.py" in record.history[0].error.traceback
    assert "django_taskq/attempt.py" not in record.history[0].error.traceback


def test_a_task_can_ask_for_a_retry_and_for_its_burial(start_worker, ended):
    results = [jobs.retry_once.enqueue(), jobs.bury.enqueue()]

    start_worker()

    retried, buried = ended(*results)
    assert (retried.state, retried.attempts, retried.result) == ("succeeded", 2, "done")
    assert (buried.state, buried.attempts, buried.history[0].error.reason) == ("dead", 1, "bad card")


@pytest.mark.parametrize("task", [jobs.raise_named, jobs.araise_named], ids=["function", "coroutine"])
def test_c24_whatever_a_task_raises_is_a_failed_attempt_and_the_worker_goes_on(task, start_worker, ended):
    names = ["SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit", "BaseException"]
    results = [task.enqueue(name) for name in names]

    worker = start_worker("--threads", "1")

    for name, record in zip(names, ended(*results), strict=True):
        assert (record.state, record.attempts) == ("dead", 2)
        assert {attempt.error.error.rpartition(".")[2] for attempt in record.history} == {name}
        assert {attempt.error.reason for attempt in record.history} == {""}
        assert "tests/redis/jobs.py" in record.history[0].error.traceback
    assert worker.stop() == 0
    assert "ended with exit code" not in worker.log


def test_more_tasks_than_threads_leave_no_slot_behind(start_worker, ended):
    results = jobs.fail.enqueue_many([((), {})] * 60)

    start_worker("--threads", "2")

    assert {record.state for record in ended(*results)} == {"dead"}
    (record,) = ended(jobs.add.enqueue(1))
    assert record.result == 1


def test_an_idle_worker_starts_a_new_task_at_once(start_worker, ended, inspector):
    start_worker()
    ended(jobs.add.enqueue(0))

    (record,) = ended(jobs.add.enqueue(1))

    assert record.started_at - record.head.enqueued_at < 200


def test_a_process_that_a_task_forks_can_be_ended_by_it(start_worker, ended):
    result = jobs.end_forked_process.enqueue()

    start_worker()

    (record,) = ended(result)
    assert record.result == -15


@pytest.mark.parametrize("task", [jobs.fork_and_return, jobs.afork_and_return], ids=["function", "coroutine"])
@pytest.mark.parametrize(("way", "code"), [("return", 0), ("exit", 3), ("raise", 1)])
def test_a_process_that_a_task_forks_ends_with_the_body_of_the_task(task, way, code, start_worker, ended):
    result = task.enqueue(way)

    start_worker("--burst").wait()

    (record,) = ended(result)
    assert (record.state, record.result, len(record.history)) == ("succeeded", code, 1)


def test_a_worker_s_presence_says_at_once_that_it_serves(start_ready):
    """Its next heartbeat is due in a hundred seconds."""
    worker = start_ready("w", lease=300)

    assert worker.stop() == 0
