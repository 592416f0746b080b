"""Tasks that are due later: once, not before their time, and without anybody's help when it has come."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from tests.casebook import jobs
from tests.redis.jobs import hold, note
from tests.rules import check_rules
from tests.waiting import wait_until

#: Milliseconds by which a task may be late; whoever missed a wake-up looks again after five seconds.
LATENESS = 1500


def seconds_ahead(seconds):
    return timedelta(seconds=seconds)


def lateness(record, delay):
    return record.started_at - record.head.enqueued_at - delay * 1000


@pytest.mark.slow
def test_c02_a_task_twenty_leases_ahead_runs_once_whatever_becomes_of_the_workers(start_ready, ended, notes, inspector):
    lease = 0.4
    workers = [start_ready(f"w{number}", lease=lease) for number in range(4)]
    result = jobs.tell.using(run_after=seconds_ahead(20 * lease)).enqueue("ran")
    enqueued = inspector.record(result.id)

    def later(share):
        seconds, micros = inspector.broker.client.time()
        return seconds * 1000 + micros / 1000 > enqueued.head.enqueued_at + share * 20_000 * lease

    wait_until(lambda: later(0.3), 20)
    assert workers[0].stop() == 0
    start_ready("w4", lease=lease)
    wait_until(lambda: later(0.6), 20)
    for worker in workers:
        worker.kill_group()
    # Nobody held it.
    assert inspector.record(result.id) == enqueued
    assert enqueued.token == 0

    (record,) = ended(result, timeout=30)

    check_rules([record])
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert lateness(record, 20 * lease) >= 0
    assert notes() == ["ran"]


@pytest.mark.slow
def test_c58_a_delayed_task_needs_no_other_to_be_enqueued(start_ready, ended, notes, inspector):
    start_ready("w", "--processes", "2", lease=2)
    draw = random.Random(58)
    late = []
    for number in range(25):
        long = draw.uniform(0.15, 0.4)
        short = draw.uniform(0.02, long - 0.1)
        first = jobs.tell.using(run_after=seconds_ahead(long)).enqueue("long", number)
        second = jobs.tell.using(run_after=seconds_ahead(short)).enqueue("short", number)
        is_cancelled = inspector.broker.cancel([second.id]) == ["DONE"] if number % 2 else False
        records = ended(first, second)
        check_rules(records)
        late.append(lateness(records[0], round(long, 3)))
        if is_cancelled:
            assert records[1].state == "cancelled"
        else:
            late.append(lateness(records[1], round(short, 3)))

    assert min(late) >= -1  # delays are whole milliseconds
    assert max(late) < LATENESS
    assert sorted(late)[len(late) // 2] < 100
    assert {f"long {number}" for number in range(25)} <= set(notes())


def test_c58_a_delayed_task_runs_in_time_after_a_restart_of_redis(own_server, start_worker, ended):
    start_worker("--processes", "2", lease=2)
    ended(jobs.tell.enqueue("up"))
    result = jobs.tell.using(run_after=seconds_ahead(3)).enqueue("ran")

    own_server.stop()
    own_server.start()

    (record,) = ended(result)
    check_rules([record])
    assert 0 <= lateness(record, 3) < LATENESS


def test_c58_a_busy_worker_leaves_the_watch_to_an_idle_one(start_ready, ended, noted):
    start_ready("first", "--threads", "1", lease=2)
    start_ready("second", "--threads", "1", lease=2)
    results = []
    for number in range(4):
        # Whoever takes the one that is due knows of the other and has no hands for it.
        delayed = jobs.tell.using(run_after=seconds_ahead(0.3)).enqueue("delayed", number)
        held = hold.enqueue(f"a{number}", f"go {number}")
        noted(f"begin a{number}")
        (record,) = ended(delayed, timeout=8)
        assert 0 <= lateness(record, 0.3) < LATENESS
        note(f"go {number}")
        results += [delayed, held]
    check_rules(ended(*results))
