"""What a task raises, is made of, or takes for granted is its own affair; the worker works on."""

from __future__ import annotations

import pytest

from tests.casebook import odd
from tests.redis.jobs import add, fail, hold, note
from tests.rules import check_rules
from tests.waiting import wait_until


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt"])
def test_c24_an_exit_in_a_coroutine_beside_the_task_s_ends_that_task_alone(error, start_worker, ended, works):
    worker = start_worker()
    result = odd.exit_in_subtask.enqueue(error)

    (record,) = ended(result, timeout=10)

    check_rules([record])
    assert record.history[0].error.error.endswith(error)
    check_rules(ended(*(odd.araise_odd.enqueue("lock") for _ in range(3))))
    works()
    assert len(worker.children()) == 1
    assert "ended with exit code" not in worker.log
    assert worker.stop() == 0


@pytest.mark.parametrize("task", [odd.raise_odd, odd.araise_odd], ids=["function", "coroutine"])
def test_c51_an_exception_that_cannot_be_shown_or_pickled_is_a_recorded_attempt(task, start_worker, ended, works):
    results = {kind: task.enqueue(kind) for kind in odd.ODD}

    worker = start_worker("--threads", "2")

    records = dict(zip(results, ended(*results.values(), timeout=30), strict=True))
    check_rules(records.values())
    for kind, record in records.items():
        assert (record.state, record.attempts) == ("dead", 1), kind
        error = record.history[0].error
        assert error.error.rpartition(".")[2] == type(odd.ODD[kind]()).__name__
        assert error.traceback
        assert len(error.message.encode()) + len(error.traceback.encode()) < 200_000
        results[kind].refresh()
        assert results[kind].errors[0].traceback == error.traceback
    assert "can't be shown" in records["unprintable"].history[0].error.message
    assert "can't be shown" in records["exiting"].history[0].error.message
    assert records["causes"].history[0].error.message == "cause 999"
    assert "bytes cut" in records["huge"].history[0].error.message
    works()
    assert "failed outside the task" not in worker.log
    assert worker.stop() == 0


UNREADABLE = {
    "garbage": b"\x00\xff\xfe",
    "head alone": b"1700000000000 0 default\n\n",
    "cut": b'1700000000000 0 default\n\n{"v":1,"name":"tests.redis.jobs.ad',
    "no UTF-8": b'1700000000000 0 default\n\n{"v":1,"name":"\xff\xfe"}',
    "no object": b"1700000000000 0 default\n\n[1, 2]",
    "odd fields": b'1700000000000 0 default\n\n{"name":"tests.redis.jobs.add","args":{"a":1}}',
    "deep": b"1700000000000 0 default\n\n" + b"[" * 100_000,
}


@pytest.mark.parametrize("place", ["ready", "scheduled", "dead"])
def test_c52_what_cannot_be_read_is_buried_with_its_bytes_and_holds_up_nothing(
    place, start_worker, ended, inspector, redis_client, works
):
    results = {kind: fail.enqueue() for kind in UNREADABLE}
    good = add.enqueue(2)
    keys = inspector.broker.keys
    if place == "dead":
        start_worker("--burst").wait()
    for kind, task in UNREADABLE.items():
        redis_client.set(keys.task(results[kind].id), task)
    move(redis_client, keys, place, [result.id for result in results.values()])
    if place == "dead":
        letters = [(record_id, int(died_at), 0) for record_id, died_at in inspector.listing("default", "dead")]
        assert inspector.broker.requeue(letters) == ["DONE"] * len(UNREADABLE)

    worker = start_worker()

    for kind, record in zip(results, ended(*results.values()), strict=True):
        assert record.state == "dead", kind
        assert record.history[-1].error.reason == "unreadable record"
        assert record.task == UNREADABLE[kind]
        assert record.expires_in_ms is None
    check_rules(ended(good))
    works()
    assert worker.stop() == 0


def move(client, keys, place, ids):
    """Put records that were enqueued, or have ended, where they are to be found."""
    if place == "scheduled":
        for record_id in ids:
            client.zrem(keys.ready("default"), record_id)
            client.zadd(keys.scheduled("default"), {record_id: 1})


def test_c52_a_body_that_is_gone_or_of_another_type_is_cancelled_and_holds_up_nothing(
    start_worker, ended, inspector, redis_client, works
):
    gone, empty, other, good = (add.enqueue(number) for number in range(4))
    keys = inspector.broker.keys
    redis_client.delete(keys.task(gone.id))
    redis_client.set(keys.task(empty.id), b"")
    redis_client.delete(keys.task(other.id))
    redis_client.rpush(keys.task(other.id), "x")
    redis_client.pexpire(keys.task(other.id), 60_000)

    worker = start_worker()

    check_rules(ended(good))
    counts = inspector.counts()["default"]
    assert (counts.ready, counts.scheduled, counts.leased, counts.dead) == (0, 0, 0, 0)
    works()
    assert worker.stop() == 0


def test_c82_whatever_a_task_does_beyond_its_limit_its_attempt_ends_once_and_its_slot_comes_back(
    start_worker, ended, notes
):
    results = [odd.stay.enqueue(way) for way in ["sleep", "recv", "swallow", "sleep"] * 2]
    # One that holds the interpreter keeps the exception from all others in its process.
    results += [odd.stay.using(queue_name="mail").enqueue("c loop") for _ in range(2)]

    workers = [start_worker("--queues", queue, "--threads", "8", lease=2) for queue in ("default", "mail")]

    records = ended(*results, timeout=40)
    check_rules(records)
    assert {(record.state, record.attempts, len(record.history)) for record in records} == {("dead", 1, 1)}
    assert {record.history[0].error.error.rpartition(".")[2] for record in records} == {"TaskTimeout"}
    assert notes().count("swallowed") == 2
    assert_eight_slots(ended, notes)
    assert [worker.stop() for worker in workers] == [0, 0]


def test_c82_no_slot_is_lost_in_a_hundred_rounds(start_worker, ended, notes):
    results = odd.spin.enqueue_many([((), {})] * 100)

    worker = start_worker("--threads", "8", lease=5)

    records = ended(*results, timeout=40)
    check_rules(records)
    assert {(record.state, record.attempts) for record in records} == {("dead", 1)}
    assert_eight_slots(ended, notes)
    assert len({record.history[0].child for record in records}) == 1
    assert "Killing" not in worker.log


def assert_eight_slots(ended, notes):
    """Check that eight tasks run at once."""
    results = [hold.enqueue(f"slot {number}", "slots") for number in range(8)]
    wait_until(lambda: sum(line.startswith("begin slot") for line in notes()) == 8)
    note("slots")
    check_rules(ended(*results))
