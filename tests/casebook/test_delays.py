"""Tasks that are due later: once, not before their time, and without anybody's help when it has come."""

from __future__ import annotations

import random
import signal
from datetime import timedelta

import pytest

from tests.broker.helpers import envelope, record
from tests.casebook import jobs
from tests.redis.jobs import hold, note
from tests.rules import check_rules
from tests.waiting import wait_until

#: Milliseconds by which a task may be late; whoever missed a wake-up looks again after five seconds.
LATENESS = 3500


def seconds_ahead(seconds):
    return timedelta(seconds=seconds)


def lateness(found, delay):
    return found.started_at - found.head.enqueued_at - delay * 1000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_c02_a_task_twenty_leases_ahead_runs_once_whatever_becomes_of_the_workers(
    start_worker, start_ready, ended, notes, inspector
):
    lease = 0.4
    workers = [start_worker(lease=lease) for _ in range(3)]
    workers.append(start_ready("w3", lease=lease))
    wait_until(lambda: all(worker.children() for worker in workers))
    result = jobs.tell.using(run_after=seconds_ahead(20 * lease)).enqueue("ran")
    enqueued_at = inspector.record(result.id).head.enqueued_at

    def later(share):
        seconds, micros = inspector.broker.client.time()
        return seconds * 1000 + micros / 1000 > enqueued_at + share * 20_000 * lease

    wait_until(lambda: later(0.3), 20)
    assert workers[0].stop() == 0
    start_ready("w4", lease=lease)
    wait_until(lambda: later(0.6), 20)
    for worker in workers:
        worker.kill_group()
    (found,) = ended(result)

    check_rules([found])
    # Nobody held it before.
    assert (found.state, found.attempts, found.releases) == ("succeeded", 1, 0)
    assert lateness(found, 20 * lease) >= 0
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
    assert sorted(late)[len(late) // 2] < 500
    assert {f"long {number}" for number in range(25)} <= set(notes())


def test_c58_a_delayed_task_runs_in_time_after_a_restart_of_redis(own_server, start_worker, ended):
    start_worker("--processes", "2", lease=2)
    ended(jobs.tell.enqueue("up"))
    result = jobs.tell.using(run_after=seconds_ahead(3)).enqueue("ran")

    own_server.stop()
    own_server.start()

    (found,) = ended(result)
    check_rules([found])
    assert 0 <= lateness(found, 3) < LATENESS


def test_c58_a_busy_worker_leaves_the_watch_to_an_idle_one(start_ready, ended, noted, notes, inspector):
    start_ready("first", "--threads", "1", lease=2)
    start_ready("second", "--threads", "1", lease=2)
    for number in range(4):
        # In one step, with one marker for both: who takes the one that is due has no hands for the other.
        delayed, held = inspector.broker.enqueue(
            [
                record("default", envelope=envelope(jobs.tell.wire_name, args=["delayed", number]), delay_ms=300),
                record("default", envelope=envelope(hold.wire_name, args=[f"a{number}", f"go {number}"])),
            ]
        )
        noted(f"begin a{number}")
        (found,) = ended(delayed)
        assert 0 <= lateness(found, 0.3) < LATENESS
        note(f"go {number}")
        check_rules(ended(delayed, held))


def test_c58_a_worker_that_stops_leaves_the_watch_to_another(start_ready, ended, noted, inspector):
    """Only the one that was woken by the enqueuing knows of it; the other would look again in five seconds."""
    names, client = ("first", "second"), inspector.broker.client
    held = [hold.using(queue_name=name).enqueue(name) for name in names]
    workers = {
        name: start_ready(name, "--queues", f"{name},default", "--threads", "2", lease=2, TASKQ_TEST_ALL_QUEUES="1")
        for name in names
    }
    noted("begin first", "begin second")
    waiting = wait_until(lambda: len(waits(client)) == 2 and waits(client))
    before = nonces(inspector)
    for each in waiting:
        client.client_unblock(each)
    wait_until(lambda: len(claimed_since(before, inspector)) == 2, what="both were woken, and claimed")
    wait_until(lambda: list(waits(client).values()) == [0, 0], what="both began to wait within the last second")
    before = nonces(inspector)
    delayed = jobs.tell.using(run_after=seconds_ahead(1.5)).enqueue("ran")
    (watcher,) = wait_until(lambda: claimed_since(before, inspector))

    workers[watcher].signal(signal.SIGTERM)

    (found,) = ended(delayed)
    note("go")
    check_rules([found, *ended(*held)])
    assert found.history[0].child.partition(".")[0] != watcher
    assert 0 <= lateness(found, 1.5) < LATENESS
    assert workers[watcher].wait() == 0


def waits(client):
    """Return for how many seconds each connection has waited for work, by its id."""
    return {one["id"]: int(one["idle"]) for one in client.client_list() if one["cmd"] == "bzpopmin"}


def nonces(inspector):
    """Return the nonce of each child's last claim."""
    client, prefix = inspector.broker.client, inspector.broker.keys.claim("")
    return {key.decode().removeprefix(prefix): client.hget(key, "nonce") for key in client.keys("*:claim:*")}


def claimed_since(before, inspector):
    """Return the workers whose children have claimed since these nonces were read."""
    return {child.partition(".")[0] for child, nonce in nonces(inspector).items() if nonce != before.get(child)}
