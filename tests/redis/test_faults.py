"""A worker in which something breaks works on, or ends with a code that says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.processes import ROOT, children_of, is_alive, task_processes
from tests.redis import jobs
from tests.rules import check_rules
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


def test_c19_a_child_that_never_becomes_ready_is_replaced(start_faulty, health, ended):
    process, log = start_faulty("hang", processes=2, ready_timeout=6)
    wait_until(lambda: health() and any(health()["children"].values()))
    assert health()["ready"] is False

    wait_until(lambda: health()["ready"], 60)

    assert "wasn't ready after" in log.read_text()
    assert [record.state for record in ended(jobs.add.enqueue(1))] == ["succeeded"]
    process.terminate()
    assert process.wait(30) == 0


def test_c19_a_project_in_which_no_child_can_start_ends_the_worker_with_code_1(start_faulty):
    process, log = start_faulty("broken")

    assert process.wait(30) == 1
    assert "this project is broken" in log.read_text()
    assert log.read_text().count("ValueError: this project is broken") <= 5


def test_c19_a_project_that_is_never_loaded_ends_the_worker_with_code_1_and_leaves_nobody(start_faulty, health):
    process, log = start_faulty("blocked", ready_timeout=2)
    wait_until(lambda: health() and not health()["ready"])
    family = wait_until(lambda: children_of(process.pid))

    assert process.wait(30) == 1
    assert "could not be started" in log.read_text()
    wait_until(lambda: not any(map(is_alive, family)), what="all its processes ended")


def test_c19_a_worker_whose_project_is_never_loaded_obeys_and_leaves_nobody(start_faulty, health):
    process, log = start_faulty("blocked")
    wait_until(lambda: health() and not health()["ready"])
    family = wait_until(lambda: children_of(process.pid))

    process.terminate()

    assert process.wait(30) == 0
    wait_until(lambda: not any(map(is_alive, family)), what="all its processes ended")
    assert "Traceback" not in log.read_text()


def test_what_a_killed_child_had_run_and_not_settled_runs_again_and_is_counted(start_faulty, ended, notes):
    names = [f"n{number}" for number in range(20)]
    results = [jobs.name_it.enqueue(name) for name in names]
    process, log = start_faulty("settling", processes=1, threads=8)

    records = ended(*results)

    ran = notes()
    again = {name for name in names if ran.count(name) == 2}
    assert set(ran) == set(names)
    assert len(ran) == len(names) + len(again)
    # They had ended together, and none of them was settled.
    assert len(again) > 1
    assert {record.state for record in records} == {"succeeded"}
    check_rules(records)
    # Others may have begun, and not come to their first line.
    assert log.read_text().count("it may have ended its process") >= len(again)
    process.terminate()
    assert process.wait(30) == 0


@pytest.mark.parametrize("fault", ["exception", "thread"])
def test_c83_a_duty_that_breaks_goes_on_and_health_shows_it(fault, start_faulty, health, ended, noted):
    result = jobs.hold.enqueue()
    process, _ = start_faulty(fault, processes=1)
    noted("begin a")

    wait_until(lambda: all(health()["failures"][name] for name in ("renewal", "presence", "reaper")))
    wait_until(lambda: health()["ready"])

    jobs.note("go")
    (record,) = ended(result)
    assert (record.state, record.attempts) == ("succeeded", 1)
    process.terminate()
    assert process.wait(30) == 0


def test_c83_a_child_whose_main_loop_breaks_ends_and_is_replaced(start_faulty, health, ended, works):
    result = jobs.hold.enqueue()
    process, log = start_faulty("loop", processes=1)

    wait_until(lambda: "ended with exit code 1" in log.read_text())

    jobs.note("go")
    (record,) = ended(result)
    check_rules([record])
    assert record.state == "succeeded"
    wait_until(lambda: health()["ready"])
    works()
    process.terminate()
    assert process.wait(30) == 0


def test_c83_a_child_whose_waiting_breaks_waits_again(start_faulty, works):
    process, log = start_faulty("waiter", processes=1)
    for _ in range(6):
        works()

    assert log.read_text().count("fault in wait") == 1
    assert "ended with exit code" not in log.read_text()
    process.terminate()
    assert process.wait(30) == 0


def test_c83_a_supervisor_whose_main_loop_breaks_ends_with_code_1_and_its_children_with_it(
    start_faulty, health, tmp_path
):
    process, log = start_faulty("supervisor", processes=2)
    wait_until(lambda: health() and health()["ready"])
    family = task_processes(process.pid)
    assert len(family) == 2

    (tmp_path / "break").touch()

    assert process.wait(30) == 1
    assert "fault in watch" in log.read_text()
    wait_until(lambda: not any(map(is_alive, family)), what="its children ended")


def test_c83_a_greeting_that_breaks_does_not_keep_the_worker_from_serving(start_faulty, works):
    process, log = start_faulty("greeting")

    works()

    assert "ZeroDivisionError" in log.read_text()
    process.terminate()
    assert process.wait(30) == 0
