"""Signals, stages and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.processes import ROOT, children_of, cmdline, is_alive
from tests.redis import jobs
from tests.waiting import SLACK, wait_until


def serving(worker):
    wait_until(worker.children, what="a child")
    return worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_c84_an_idle_worker_ends_within_a_second(number, start_worker, ended):
    worker = start_worker("--processes", "2")
    ended(jobs.add.enqueue(1))
    children = worker.children()
    started = time.monotonic()

    worker.signal(number)

    assert worker.wait() == 0
    assert time.monotonic() - started < 1 + SLACK
    assert not any(map(is_alive, children))


def test_c84_a_worker_whose_children_are_being_started_ends_within_a_second(start_worker):
    worker = start_worker(TASKQ_TEST_SLOW_CHILDREN="10")
    wait_until(lambda: any("forkserver" in cmdline(pid) for pid in children_of(worker.pid)))
    started = time.monotonic()

    worker.signal(signal.SIGTERM)

    assert worker.wait() == 0
    assert time.monotonic() - started < 1 + SLACK


def test_c84_a_signal_to_the_whole_group_ends_it_as_well_as_one_to_the_supervisor(start_worker, ended, noted):
    result = jobs.hold.enqueue()
    worker = start_worker()
    noted("begin a")

    os.killpg(worker.pid, signal.SIGTERM)
    wait_until(lambda: "is stopping" in worker.log)
    jobs.note("go")

    assert worker.wait() == 0
    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 1)


def test_c84_a_stopping_worker_claims_no_more_and_lets_running_tasks_end(start_worker, ended, noted, inspector):
    running = jobs.hold.enqueue()
    worker = start_worker("--threads", "2")
    noted("begin a")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "is stopping" in worker.log)
    late = jobs.add.enqueue(1)

    jobs.note("go")

    assert worker.wait() == 0
    (record,) = ended(running)
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert inspector.record(late.id).state == "waiting"


def test_leases_are_renewed_during_the_grace(start_worker, ended, noted, inspector):
    running = jobs.hold.enqueue()
    worker = start_worker(lease=1)
    noted("begin a")
    worker.signal(signal.SIGTERM)
    before = inspector.record(running.id).lease_ends_at
    wait_until(lambda: inspector.record(running.id).lease_ends_at > before + 2000)

    jobs.note("go")

    (record,) = ended(running)
    assert (record.state, record.attempts) == ("succeeded", 1)


@pytest.mark.parametrize("how", ["grace", "second signal"])
def test_c84_what_still_runs_is_killed_first_and_then_given_back(how, start_worker, noted, inspector):
    result = jobs.hold.enqueue()
    worker = start_worker("--shutdown-timeout", "0.5" if how == "grace" else "60")
    noted("begin a")
    (child,) = worker.children()

    worker.signal(signal.SIGTERM)
    if how == "second signal":
        wait_until(lambda: "is stopping" in worker.log)
        worker.signal(signal.SIGTERM)

    assert worker.wait() == 5
    assert not is_alive(child)
    record = inspector.record(result.id)
    assert (record.state, record.attempts) == ("waiting", 0)


def test_c84_quit_ends_it_now(start_worker, noted):
    jobs.hold.enqueue()
    worker = start_worker(lease=1)
    noted("begin a")
    (child,) = worker.children()

    worker.signal(signal.SIGQUIT)

    assert worker.wait(2) == 5
    wait_until(lambda: not is_alive(child))


def test_usr1_shows_stacks_and_leases_and_changes_nothing(start_worker, ended, noted):
    result = jobs.hold.enqueue()
    worker = start_worker()
    noted("begin a")

    worker.signal(signal.SIGUSR1)

    wait_until(lambda: "in wait_for_note" in worker.log and f"Lease {result.id}" in worker.log)
    jobs.note("go")
    assert [record.attempts for record in ended(result)] == [1]
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--no-such-flag"], 2),
        (["--health-port", "80"], 2),
        (["--log-format", "json"], 2),
        (["--queues", "a:b"], 2),
        (["--threads", "0"], 2),
        (["--backend", "nowhere"], 2),
        (["--name", "a b"], 2),
    ],
)
def test_c84_wrong_arguments_are_refused_with_code_2(arguments, code, start_worker):
    assert start_worker(*arguments).wait() == code


def test_c84_a_wrong_password_is_refused_with_code_2(start_worker, redis_server):
    worker = start_worker(TASKQ_TEST_URL=redis_server.unix_url + "&password=wrong")

    assert worker.wait() == 2
    assert "wrong" not in worker.log.replace("Redis refuses us: ", "").partition("WRONGPASS")[0]


def test_c84_fail_fast_ends_with_code_4_when_redis_is_away(start_worker, tmp_path):
    worker = start_worker("--fail-fast", TASKQ_TEST_URL=f"unix://{tmp_path}/nothing")

    assert worker.wait() == 4


def test_the_health_file_says_whether_the_worker_serves(start_worker, tmp_path):
    path = tmp_path / "health"
    worker = start_worker("--health-file", str(path))

    wait_until(lambda: path.exists() and json.loads(path.read_text())["ready"])

    assert worker.stop() == 0
    assert not path.exists()


def test_c84_it_runs_on_without_a_reader_of_its_output(redis_server, notes, ended):
    command = [sys.executable, "-m", "django", "runtaskworker", "--settings=tests.redis.project", "--processes", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        worker.stdout.close()
        assert [record.state for record in ended(jobs.fail.enqueue(), jobs.add.enqueue(1))] == ["dead", "succeeded"]
        worker.terminate()
        assert worker.wait(10) == 0
    finally:
        worker.kill()
        worker.wait()
