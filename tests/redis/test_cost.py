"""What a worker asks of Redis while it is idle, and what it keeps of tasks that failed."""

from __future__ import annotations

import threading
from statistics import median

import pytest

from tests.casebook import odd
from tests.redis import jobs
from tests.rules import check_rules
from tests.waiting import wait_until


def commands_in(client, seconds):
    """Return what clients ask of a server in so many seconds; what a script runs isn't asked."""
    found = []
    with client.monitor() as monitor:
        end = client.time()[0] + seconds
        timer = threading.Timer(seconds + 0.5, client.ping)  # or a silent server would keep us
        timer.start()
        for event in monitor.listen():
            if event["time"] > end:
                timer.join()
                return found
            if event["client_type"] != "lua":
                found.append(event["command"].partition(" ")[0].upper())
    raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("queues", [1, 50])
def test_c85_an_idle_worker_asks_seldom_and_takes_new_work_at_once(queues, start_worker, ended, redis_client):
    names = ["default", *(f"queue {number}" for number in range(1, queues))]
    first = [jobs.add.using(queue_name=name).enqueue(0) for name in names]
    worker = start_worker("--processes", "2", "--threads", "8", lease=30, TASKQ_TEST_ALL_QUEUES="1")
    ended(*first)
    wait_until(lambda: len(worker.children()) == 2)
    wait_until(lambda: not redis_client.keys("*:wake"), what="all markers were followed")

    asked = commands_in(redis_client, 6)

    # A supervisor and two children.
    assert len(asked) / 6 / 3 < 1, asked
    records = []
    for number in range(15):
        records += ended(jobs.add.using(queue_name=names[number % queues]).enqueue(number))
    check_rules(records)
    assert median(record.started_at - record.head.enqueued_at for record in records) < 500


@pytest.mark.slow
def test_c86_a_child_does_not_grow_with_failures(start_worker, ended, inspector):
    worker = start_worker("--threads", "4")
    (child,) = wait_until(worker.children)

    def run(count):
        results = jobs.fail_with_much.enqueue_many([((), {})] * count)
        wait_until(lambda: inspector.record(results[-1].id).state == "dead", 60)
        wait_until(lambda: inspector.counts()["default"].leased == inspector.counts()["default"].ready == 0)
        with open(f"/proc/{child}/statm") as file:
            return int(file.read().split()[1])

    warm = run(500)

    assert run(2000) < warm * 1.1


@pytest.mark.parametrize("task", [odd.fail_holding, odd.afail_holding], ids=["function", "coroutine"])
def test_c86_nothing_that_a_failed_task_held_is_kept(task, start_worker, ended):
    results = task.enqueue_many([((), {})] * 50)
    worker = start_worker("--threads", "2")
    check_rules(ended(*results))

    (record,) = ended(odd.count_held.enqueue())

    assert record.result == 0
    assert worker.stop() == 0


def test_the_collector_passes_over_what_a_child_loaded_at_its_start(start_worker, ended):
    result = jobs.count_frozen.enqueue()
    start_worker()
    assert ended(result)[0].result > 10_000
