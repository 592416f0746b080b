"""What a worker asks of Redis, and what it keeps."""

from __future__ import annotations

import time

import pytest

from tests.redis import jobs
from tests.waiting import wait_until


def commands(client):
    return client.info("stats")["total_commands_processed"]


@pytest.mark.slow
def test_an_idle_worker_leaves_redis_alone(start_worker, ended, redis_client):
    start_worker("--processes", "2", lease=30)
    ended(jobs.add.enqueue(0))
    before, started = commands(redis_client), time.monotonic()

    wait_until(lambda: time.monotonic() - started > 10, 20)

    # Scripts count with each command that they run.
    calls = commands(redis_client) - before
    assert calls / 10 < 6


@pytest.mark.slow
def test_a_child_does_not_grow_with_failures(start_worker, ended, inspector):
    worker = start_worker("--threads", "4")
    (child,) = wait_until(worker.children)

    def run(count):
        results = jobs.fail_with_much.enqueue_many([((), {})] * count)
        wait_until(lambda: inspector.record(results[-1].id).state == "dead", 60)
        wait_until(
            lambda: sum(inspector.counts()["default"].__getattribute__(name) for name in ("ready", "leased")) == 0
        )
        with open(f"/proc/{child}/statm") as file:
            return int(file.read().split()[1])

    warm = run(500)

    assert run(2000) < warm * 1.1
