"""Busy workers, stopping workers, and those that take over from them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from datetime import timedelta

import pytest

from django_taskq.broker import scripts
from tests.casebook import jobs
from tests.processes import ROOT, WorkerProcess, children_of, is_alive, task_processes
from tests.redis.jobs import add, hold, note
from tests.rules import check_rules
from tests.waiting import SLACK, wait_until

#: Milliseconds.
LEASE = 1000
#: Milliseconds by which a delayed task may be late; whoever missed a wake-up looks again after five seconds.
LATENESS = 3500


def test_c20_short_tasks_do_not_wait_behind_a_long_one(start_ready, ended, noted, inspector):
    long = hold.enqueue()
    start_ready("busy", "--threads", "1", lease=LEASE / 1000)
    noted("begin a")
    start_ready("idle", "--threads", "1", lease=LEASE / 1000)

    short = add.enqueue_many([((number,), {}) for number in range(20)])

    records = ended(*short)
    check_rules(records)
    assert max(record.finished_at for record in records) - records[0].head.enqueued_at < 1000 + SLACK * 1000
    assert {record.history[0].child.partition(".")[0] for record in records} == {"idle"}
    # Not even with more work than anybody can start does it hold more than that.
    more = hold.enqueue_many([(("b",), {})] * 3)
    noted("begin b")
    assert len(inspector.listing("default", "leased")) == 2
    note("go")
    check_rules(ended(long, *more))


def test_c21_a_stopping_worker_gives_back_nothing_that_runs(start_ready, ended, noted, notes, inspector):
    results = [hold.using(queue_name=side).enqueue(side, f"go {side}") for side in ("left", "right")]
    sides = {"lease": LEASE / 1000, "TASKQ_TEST_ALL_QUEUES": "1"}
    worker = start_ready("stopping", "--queues", "left,right", "--threads", "2", **sides)
    noted("begin left", "begin right")
    start_ready("other", "--queues", "left,right", **sides)
    unstarted = add.using(queue_name="left").enqueue(1)
    ended(unstarted)

    worker.signal(signal.SIGTERM)
    wait_until(lambda: "is stopping" in worker.log)
    note("go left")
    ended(results[0])
    ends_at = inspector.record(results[1].id).lease_ends_at
    # Its lease is still renewed, three times over.
    wait_until(lambda: inspector.record(results[1].id).lease_ends_at > ends_at + 3 * LEASE)
    right = inspector.record(results[1].id)
    assert (right.state, right.attempts) == ("leased", 1)
    assert worker.process.poll() is None

    note("go right")
    assert worker.wait() == 0
    records = ended(*results)
    check_rules(records)
    assert [(record.state, record.attempts) for record in records] == [("succeeded", 1)] * 2
    assert sorted(line for line in notes() if line.startswith("begin")) == ["begin left", "begin right"]


def test_c21_what_is_given_back_at_the_end_of_the_grace_has_ended_here_first(start_ready, ended, noted, notes):
    result = jobs.hold_alone.enqueue("go")
    worker = start_ready("stopping", "--shutdown-timeout", "0.5", lease=10)
    noted("alone")
    start_ready("other", lease=10)

    worker.signal(signal.SIGTERM)

    assert worker.wait() == 5
    wait_until(lambda: len(notes()) == 4)
    note("go")
    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert "beside another" not in notes()


def test_c22_what_was_claimed_without_an_answer_is_given_back_at_once(start_worker, ended, inspector, proxy):
    worker = start_worker(lease=15, TASKQ_TEST_URL=proxy.url)
    ended(add.enqueue(0))
    proxy.lose_reply_to(scripts.load("claim").sha.encode(), "hang")
    result = add.enqueue(1)
    assert proxy.has_lost.wait(10)
    assert inspector.record(result.id).state == "leased"
    started = time.monotonic()

    assert worker.stop() == 0

    assert time.monotonic() - started < 1 + SLACK
    record = inspector.record(result.id)
    assert (record.state, record.attempts) == ("waiting", 0)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_c22_a_rolling_restart_loses_nothing_and_makes_nothing_late(start_worker, start_ready, ended, notes, inspector):
    """Five restarts over 64 tasks and 60 delayed ones: the case at a tenth of its size."""
    draw = random.Random(22)
    settings = {"lease": LEASE / 1000}
    workers = [start_worker("--threads", "2", **settings) for _ in range(2)]
    workers.append(start_ready("w2", "--threads", "2", **settings))
    now = jobs.step.enqueue_many([((draw.choice([1, 20, 100]),), {}) for _ in range(60)])
    now += jobs.step.enqueue_many([((1500,), {}) for _ in range(4)])
    delays = {}
    for _ in range(60):
        delay = draw.randrange(2000, 12_000)
        task = jobs.step.using(run_after=timedelta(milliseconds=delay))
        delays[task.enqueue(draw.choice([1, 20])).id] = delay
    killed = 0
    for number in range(3, 8):
        oldest = workers.pop(0)
        oldest.signal(signal.SIGTERM)
        try:
            assert oldest.process.wait(1 + SLACK) == 0
        except subprocess.TimeoutExpired:
            oldest.kill_group()
            killed += 1
        workers.append(start_ready(f"w{number}", "--threads", "2", **settings))

    records = ended(*now, timeout=60)
    wait_until(lambda: all(inspector.record(each).state == "succeeded" for each in delays), 30)
    delayed = [inspector.record(each) for each in delays]

    check_rules([*records, *delayed])
    errors = [attempt.error.reason for record in records + delayed for attempt in record.history if attempt.error]
    assert set(errors) <= {"lease expired"}
    assert len(errors) <= 2 * killed
    assert {record.state for record in records} == {"succeeded"}
    late = [record.started_at - record.head.enqueued_at - delays[record.id] for record in delayed]
    assert 0 <= min(late) <= max(late) < LATENESS
    begun = [line.split()[1] for line in notes() if line.startswith("begin")]
    assert len(begun) == len(records) + len(delayed) + len(errors)


@pytest.fixture
def first_process(redis_server, notes, tmp_path):
    """Give a worker that is the first process of a container, and the process around it."""
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("a container can't be made here")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    outer = WorkerProcess(["--processes", "1"], environment, tmp_path / "log", prefix=container)
    yield wait_until(lambda: children_of(outer.pid))[0], outer
    outer.kill_group()


def test_c84_the_first_process_of_a_container_obeys_and_replaces_its_children(first_process, ended):
    worker, container = first_process
    ended(add.enqueue(1))
    (child,) = task_processes(worker)
    os.kill(child, signal.SIGKILL)
    records = ended(add.enqueue(2))
    check_rules(records)
    assert not is_alive(child)

    os.kill(worker, signal.SIGTERM)

    assert container.wait() == 0


def test_c84_the_first_process_of_a_container_obeys_though_it_is_busy(first_process, noted, inspector):
    worker, container = first_process
    result = hold.enqueue()
    noted("begin a")

    os.kill(worker, signal.SIGINT)
    wait_until(lambda: "is stopping" in container.log)
    os.kill(worker, signal.SIGINT)

    assert container.wait() == 5
    record = inspector.record(result.id)
    assert (record.state, record.attempts) == ("waiting", 0)
