"""Processes are killed at the worst moments, and no task is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial

import pytest

from django_taskq.broker import scripts
from tests.casebook import jobs
from tests.redis.jobs import add, hold, note
from tests.rules import check_rules
from tests.waiting import SLACK, wait_until

#: Milliseconds.
LEASE, BACKOFF = 1000, 50
#: Milliseconds that recovery may take after a lapse, and after a death that a supervisor sees.
PATIENCE = 1000 + int(SLACK * 1000)


def sha_of(script):
    return scripts.load(script).sha.encode()


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def milliseconds():
    return time.time() * 1000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_c03_no_task_is_lost_when_workers_and_children_are_killed_twenty_times(start_worker, ended, notes, inspector):
    draw = random.Random(20)

    def start(number):
        name = f"w{number}"
        return name, start_worker("--name", name, "--threads", "2", "--processes", "2", lease=LEASE / 1000)

    workers = dict(start(number) for number in range(2))
    results, kills = [], []
    for number in range(20):
        results += jobs.step.enqueue_many([((draw.choice([0, 30, 100, 300]),), {}) for _ in range(10)])
        some_ended = len(results) - 10 + draw.randrange(8)
        wait_until(lambda some_ended=some_ended: ends(notes) >= some_ended, 30, "tasks end")
        victim = wait_until(lambda: next(filter(partial(holds_something, inspector), workers), None), 20, "one is busy")
        if number % 5 == 4:
            workers.pop(victim).kill_group()
            workers.update([start(2 + number)])
        else:
            kill(draw.choice(wait_until(workers[victim].children, 20, "a child")))
        kills.append(milliseconds())

    records = ended(*results, timeout=60)

    check_rules(records)
    assert {record.state for record in records} == {"succeeded"}
    failed = [attempt for record in records for attempt in record.history if attempt.error]
    assert {attempt.error.reason for attempt in failed} == {"worker lost", "lease expired"}
    for attempt in failed:
        allowed = PATIENCE + (LEASE if attempt.error.reason == "lease expired" else 0)
        assert any(-50 <= attempt.ended_at - killed_at <= allowed for killed_at in kills), attempt


def holds_something(inspector, worker):
    ids = [record_id for record_id, _ in inspector.listing("default", "leased")[:100]]
    return any(record and (record.worker or "").startswith(f"{worker}.") for record in inspector.records(ids))


def ends(notes):
    return sum(line.startswith("end ") for line in notes())


def test_c03_what_a_killed_child_claimed_without_hearing_of_it_goes_back_at_once(
    start_worker, ended, noted, notes, inspector, proxy
):
    worker = start_worker(lease=10, TASKQ_TEST_URL=proxy.url)
    ended(add.enqueue(0))
    (child,) = worker.children()
    proxy.lose_reply_to(sha_of("claim"), "hang")

    result = add.enqueue(1)
    assert proxy.has_lost.wait(10)
    assert inspector.record(result.id).state == "leased"
    kill(child)
    killed_at = milliseconds()

    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts, record.releases) == ("succeeded", 1, 0)
    assert record.started_at - killed_at < PATIENCE + 1000  # a new child has to start


def test_c03_what_a_killed_worker_claimed_without_hearing_of_it_runs_elsewhere(start_worker, ended, inspector, proxy):
    worker = start_worker(lease=LEASE / 1000, TASKQ_TEST_URL=proxy.url)
    ended(add.enqueue(0))
    proxy.lose_reply_to(sha_of("claim"), "hang")
    result = hold.enqueue()
    assert proxy.has_lost.wait(10)
    worker.kill_group()
    killed_at = milliseconds()

    start_worker(lease=LEASE / 1000)

    note("go")
    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert record.history[0].error.reason == "lease expired"
    assert record.history[0].ended_at - killed_at < LEASE + PATIENCE + 5000  # the other worker has to start


@pytest.mark.parametrize("end", ["frozen", "killed"])
def test_c04_a_reaper_that_ends_within_its_pass_holds_up_no_other(
    end, start_worker, start_ready, ended, noted, notes, proxy
):
    reaper = start_ready("reaper", "--queues", "mail", lease=LEASE / 1000, TASKQ_TEST_URL=proxy.url)
    proxy.lose_reply_to(sha_of("expired"), "hang")
    result = hold.enqueue()
    victim = start_worker(lease=LEASE / 1000)
    noted("begin a")
    assert proxy.has_lost.wait(10)
    os.killpg(reaper.pid, signal.SIGSTOP if end == "frozen" else signal.SIGKILL)
    start_ready("rescuer", lease=LEASE / 1000)

    victim.kill_group()
    killed_at = milliseconds()

    wait_until(lambda: notes().count("begin a") == 2)
    note("go")
    (record,) = ended(result)
    check_rules([record])
    assert record.history[0].error.reason == "lease expired"
    assert record.history[0].ended_at - killed_at < LEASE + PATIENCE
    assert record.last_attempted_at - killed_at < LEASE + PATIENCE + BACKOFF
