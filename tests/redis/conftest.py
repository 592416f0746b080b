"""Worker processes for the tests, on the server of tests/settings.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from django_taskq.broker.inspector import Inspector
from django_taskq.compat import task_backends
from tests.redis import jobs
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
ENDED = {"succeeded", "dead", "cancelled"}


class WorkerProcess:
    """A `runtaskworker` in a process group of its own, with what it wrote."""

    def __init__(self, arguments, environment, log):
        self.log_path = log
        command = [sys.executable, "-m", "django", "runtaskworker", "--settings=tests.redis.project", *arguments]
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=15):
        """Return the exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker didn't end:\n{self.log}") from None

    def stop(self, timeout=15):
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def children(self):
        """Return the ids of the processes that run tasks: the fork server's, or the supervisor's own."""
        own = children_of(self.pid)
        forked = [pid for server in own if "forkserver" in cmdline(server) for pid in children_of(server)]
        return [pid for pid in [*forked, *(pid for pid in own if "spawn_main" in cmdline(pid))] if is_alive(pid)]

    def kill_group(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Give a function that returns the lines that tasks noted."""
    monkeypatch.setenv(jobs.NOTES, str(tmp_path / "notes"))
    return jobs.notes


@pytest.fixture
def start_worker(redis_server, notes, tmp_path):
    """Give a function that starts a worker; those that are left are killed after the test."""
    started = []

    def start(*arguments, lease=3, **variables):
        environment = {**os.environ, "TASKQ_TEST_LEASE": str(lease), "PYTHONPATH": str(ROOT), **variables}
        if "--processes" not in arguments:
            arguments = ("--processes", "1", *arguments)
        log = tmp_path / f"worker-{len(started)}.log"
        started.append(WorkerProcess(arguments, environment, log))
        return started[-1]

    yield start
    for worker in started:
        worker.kill_group()


@pytest.fixture
def inspector(redis_server):
    return Inspector(task_backends["default"].broker)


@pytest.fixture
def ended(inspector):
    """Give a function that waits until tasks have ended and returns their records."""

    def wait_for(*results, timeout=15):
        ids = [result.id for result in results]

        def all_ended():
            records = [inspector.record(each) for each in ids]
            return records if all(record and record.state in ENDED for record in records) else None

        return wait_until(all_ended, timeout, f"{ids} ended")

    return wait_for


@pytest.fixture
def noted(notes):
    """Give a function that waits until lines are noted."""

    def wait_for(*lines, timeout=15):
        wait_until(lambda: set(lines) <= set(notes()), timeout, f"{lines} noted")

    return wait_for
