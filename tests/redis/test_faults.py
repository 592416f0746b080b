"""A worker in which something breaks works on, or ends with a code that says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.processes import ROOT
from tests.redis import jobs
from tests.waiting import wait_until


@pytest.fixture
def start_faulty(redis_server, notes, tmp_path):
    """Start tests/redis/supervise.py with a fault; give its process and its log."""
    started = []

    def start(fault, **settings):
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.redis.project", "PYTHONPATH": str(ROOT)}
        log = tmp_path / "log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.redis.supervise", fault],
                cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        started.append(process)
        process.stdin.write(json.dumps({"folder": str(tmp_path), "lease": 1, **settings}).encode())
        process.stdin.close()
        return process, log

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def health(tmp_path):
    def read():
        try:
            return json.loads((tmp_path / "health").read_text())
        except FileNotFoundError:
            return None

    return read


def test_a_child_that_never_becomes_ready_is_replaced(start_faulty, health, ended):
    process, log = start_faulty("hang", processes=2, ready_timeout=3)
    wait_until(lambda: health() and any(health()["children"].values()))
    assert health()["ready"] is False

    wait_until(lambda: health()["ready"], 15)

    assert "wasn't ready after" in log.read_text()
    assert [record.state for record in ended(jobs.add.enqueue(1))] == ["succeeded"]
    process.terminate()
    assert process.wait(10) == 0


def test_a_project_in_which_no_child_can_start_ends_the_worker_with_code_1(start_faulty):
    process, log = start_faulty("broken")

    assert process.wait(30) == 1
    assert "this project is broken" in log.read_text()
    assert log.read_text().count("ValueError: this project is broken") <= 5


@pytest.mark.parametrize("fault", ["exception", "thread"])
def test_a_duty_that_breaks_goes_on_and_health_shows_it(fault, start_faulty, health, ended, noted):
    result = jobs.hold.enqueue()
    process, _ = start_faulty(fault, processes=1)
    noted("begin a")

    wait_until(lambda: all(health()["failures"][name] for name in ("renewal", "presence", "reaper")), 15)
    wait_until(lambda: health()["ready"], 15)

    jobs.note("go")
    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 1)
    process.terminate()
    assert process.wait(10) == 0
