"""Redis goes away and comes back, and the worker is still there."""

from __future__ import annotations

import signal
import time

import pytest

from tests.redis import jobs
from tests.waiting import SLACK, wait_until


def test_c35_a_worker_waits_for_redis_at_its_start(own_server, start_worker, ended):
    result = jobs.add.enqueue(1)
    own_server.stop()
    worker = start_worker()
    wait_until(lambda: "Starting: " in worker.log)

    own_server.start()

    assert [record.state for record in ended(result)] == ["succeeded"]


@pytest.mark.parametrize("state", ["starting", "idle", "busy waiting"])
def test_c35_a_worker_without_redis_ends_within_a_second(state, own_server, start_worker, ended):
    if state != "starting":
        worker = start_worker()
        ended(jobs.add.enqueue(1))
    own_server.stop()
    if state == "starting":
        worker = start_worker()
    wait_until(lambda: "trying again" in worker.log)
    if state == "busy waiting":
        wait_until(lambda: worker.log.count("trying again") >= 3)
    started = time.monotonic()

    worker.signal(signal.SIGTERM)

    assert worker.wait() == 0
    assert time.monotonic() - started < 1 + SLACK


def test_a_finished_task_is_settled_when_redis_is_back(own_server, start_worker, ended, noted, notes):
    result = jobs.hold.enqueue()
    start_worker(lease=5)
    noted("begin a")
    own_server.stop()
    jobs.note("go")
    noted("end a")

    own_server.start()

    (record,) = ended(result)
    assert (record.state, record.attempts, record.result) == ("succeeded", 1, "a")
    assert notes().count("begin a") == 1


def test_c10_a_pause_of_redis_within_the_lease_costs_nothing(own_server, start_worker, ended, noted, notes):
    result = jobs.hold.enqueue()
    start_worker(lease=2)
    start_worker(lease=2)
    noted("begin a")
    for _ in range(2):
        own_server.pause()
        paused = time.monotonic()
        wait_until(lambda paused=paused: time.monotonic() - paused > 1)
        own_server.resume()
        resumed = time.monotonic()
        wait_until(lambda resumed=resumed: time.monotonic() - resumed > 1)

    jobs.note("go")

    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert notes().count("begin a") == 1


def test_c10_a_task_hears_when_an_outage_outlasts_its_lease(own_server, start_worker, noted):
    jobs.tell_lease.enqueue()
    worker = start_worker(lease=1)
    noted("begin 1")

    own_server.stop()

    noted("lost")
    assert worker.process.poll() is None
