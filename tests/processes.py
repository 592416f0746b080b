"""Worker processes that tests start, look at and kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class LoggedProcess:
    """A process in a group of its own, with what it wrote."""

    def __init__(self, command, log, **options):
        self.log_path = log
        with open(log, "ab") as file:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            self.process = subprocess.Popen(command, start_new_session=True, **{**pipes, **options})

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=30):
        """Return the exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process didn't end:\n{self.log}") from None

    def stop(self, timeout=30):
        self.signal(signal.SIGTERM)
        return self.wait(timeout)


class WorkerProcess(LoggedProcess):
    """A `runtaskworker`."""

    def __init__(self, arguments, environment, log, settings="tests.redis.project", prefix=(), cwd=ROOT):
        command = [*prefix, sys.executable, "-m", "django", "runtaskworker", f"--settings={settings}", *arguments]
        super().__init__(command, log, cwd=cwd, env=environment)

    def children(self):
        return task_processes(self.pid)

    def kill_group(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


def task_processes(supervisor):
    """Return the ids of the processes that run a worker's tasks: the fork server's, or the supervisor's own."""
    own = children_of(supervisor)
    forked = [pid for server in own if "forkserver" in cmdline(server) for pid in children_of(server)]
    return [pid for pid in [*forked, *(pid for pid in own if "spawn_main" in cmdline(pid))] if is_alive(pid)]


def children_of(pid):
    """Return the children that any thread of a process made."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, path.read_text().split())
    return found


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


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
