"""Processes die, and no task is lost or run more often than it must."""

from __future__ import annotations

import os
import signal
import time

from tests.processes import is_alive, parent_of
from tests.redis import jobs
from tests.rules import check_rules
from tests.waiting import SLACK, wait_until


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def the_child(worker, other_than=None):
    return wait_until(lambda: [pid for pid in worker.children() if pid != other_than], what="a child")[0]


def test_the_task_of_a_killed_child_runs_again_within_a_second(start_worker, ended, noted, notes, inspector):
    result = jobs.hold.enqueue()
    worker = start_worker("--threads", "2", lease=20)
    noted("begin a")
    child = the_child(worker)

    kill(child)
    killed_at = time.time() * 1000

    wait_until(lambda: notes().count("begin a") == 2)
    jobs.note("go")
    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert record.history[0].error.reason == "worker lost"
    assert record.last_attempted_at - killed_at < 1000 + 50 + SLACK * 1000  # a second and the backoff
    assert the_child(worker) != child


def test_a_task_that_kills_its_child_becomes_a_dead_letter_and_its_neighbours_do_not(start_worker, ended, noted, notes):
    neighbours = [jobs.hold.enqueue(name, "done") for name in "abc"]
    killer = jobs.kill_own_process.enqueue()
    start_worker("--threads", "4")
    noted("begin a", "begin b", "begin c", "killer")

    jobs.note("go")

    (record,) = ended(killer)
    jobs.note("done")
    assert (record.state, record.attempts) == ("dead", 3)
    assert {attempt.error.reason for attempt in record.history} == {"worker lost"}
    for neighbour in ended(*neighbours):
        assert neighbour.state == "succeeded"
        assert neighbour.attempts == 1


def test_c24_a_task_that_exits_its_process_is_a_failed_attempt(start_worker, ended):
    result = jobs.exit_process.enqueue()

    start_worker()

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("dead", 2)


def test_the_children_of_a_killed_supervisor_end_and_another_worker_takes_over_within_a_lease_and_a_second(
    start_worker, start_ready, ended, noted, notes
):
    result = jobs.hold.enqueue()
    worker = start_worker(lease=1)
    noted("begin a")
    child = the_child(worker)
    start_ready("other", lease=1)

    kill(worker.pid)
    killed_at = time.time() * 1000

    wait_until(lambda: not is_alive(child), what="the child ended")
    wait_until(lambda: notes().count("begin a") == 2)
    jobs.note("go")
    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert record.history[0].error.reason == "lease expired"
    assert record.history[0].ended_at - killed_at < 1000 + 1000 + SLACK * 1000
    assert record.last_attempted_at - killed_at < 1000 + 1000 + 50 + SLACK * 1000  # the lease, a second, the backoff


def test_a_child_that_holds_the_interpreter_dies_with_its_supervisor(start_worker, noted):
    jobs.hold_interpreter.enqueue(20)
    worker = start_worker(lease=1)
    noted("begin")
    child = the_child(worker)

    kill(worker.pid)

    wait_until(lambda: not is_alive(child), 10, "the child ended")


def test_a_task_that_holds_the_interpreter_for_four_leases_runs_once(start_worker, ended, notes):
    result = jobs.hold_interpreter.enqueue(4)

    start_worker(lease=1)
    start_worker(lease=1)

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert notes() == ["begin", "end"]


def test_what_a_killed_child_had_claimed_and_not_begun_costs_no_attempt(start_worker, ended, noted, inspector):
    blocker = jobs.hold_interpreter.enqueue(3)
    worker = start_worker("--threads", "4", lease=1)
    noted("begin")
    child = the_child(worker)
    kill(child)

    (record,) = ended(blocker)

    assert (record.state, record.attempts) == ("succeeded", 2)


def test_a_child_that_stands_still_is_killed_and_its_task_fails(start_worker, ended, noted):
    result = jobs.hold.enqueue()
    worker = start_worker("--stall-timeout", "2", lease=1)
    noted("begin a")
    child = the_child(worker)

    os.kill(child, signal.SIGSTOP)

    the_child(worker, other_than=child)
    jobs.note("go")
    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert record.history[0].error.reason == "worker stalled"


def test_a_child_whose_event_loop_a_coroutine_blocks_is_killed_as_one_that_stands_still(start_worker, ended):
    result = jobs.block_event_loop.enqueue()

    start_worker("--stall-timeout", "1", lease=1)

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("dead", 1)
    assert record.history[0].error.reason == "worker stalled"


def test_a_dead_child_is_missed_though_a_process_that_its_task_forked_lives(start_worker, ended, works):
    result = jobs.leave_process_behind.enqueue()

    start_worker("--reload", lease=1)

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("dead", 1)
    assert record.history[0].error.reason == "worker lost"
    works()


def test_the_end_of_the_fork_server_loses_nothing(start_worker, ended, noted, notes):
    result = jobs.hold.enqueue()
    worker = start_worker(lease=1)
    noted("begin a")
    (child,) = worker.children()
    server = parent_of(child)

    kill(server)

    wait_until(lambda: not is_alive(child), what="the child ended")
    wait_until(lambda: notes().count("begin a") == 2)
    jobs.note("go")
    assert [record.state for record in ended(result)] == ["succeeded"]


def test_c86_children_are_recycled_after_so_many_tasks_without_loss(start_worker, ended, inspector):
    results = jobs.add.enqueue_many([((number,), {}) for number in range(40)])

    worker = start_worker("--burst", "--max-tasks", "10", "--threads", "4")

    assert worker.wait() == 0
    records = ended(*results)
    assert {record.state for record in records} == {"succeeded"}
    assert {record.attempts for record in records} == {1}
    assert len({record.history[0].child for record in records}) >= 4
