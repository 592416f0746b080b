"""Processes of a worker service: started, counted, ended."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

from benchmarks.peer import ROOT

TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def family(pids):
    """Return the given processes and every living descendant."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                children.setdefault(int(_stat(entry)[1]), []).append(int(entry))
    found, queue = [], list(pids)
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def cpu_seconds(pids):
    """Return the CPU time of a family, its reaped children included, in ticks of the kernel."""
    total = 0
    for pid in family(pids):
        with contextlib.suppress(OSError, IndexError):
            total += sum(map(int, _stat(pid)[11:15]))
    return total / TICK


def fine_cpu_seconds(pids):
    """Return the CPU time of a family's living threads, in nanoseconds where the kernel tells them."""
    if not os.path.exists("/proc/self/schedstat"):
        return cpu_seconds(pids)
    total = 0
    for pid in family(pids):
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(path.read_text().split()[0])
    return total / 1e9


def memory_mb(pids):
    """Return the proportional set size, in which pages shared after a fork count once."""
    total = 0
    for pid in family(pids):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return round(total / 1024, 1)


def wait_quiet(most_s=20, busy_pct=12):
    """Wait until nothing else uses the machine; return how many percent of it are busy still."""
    deadline = time.monotonic() + most_s
    while True:
        first = _busy()
        time.sleep(0.25)
        second = _busy()
        busy = 100 * (second[0] - first[0]) / max(1, second[1] - first[1])
        if busy < busy_pct or time.monotonic() > deadline:
            return round(busy, 1)
        time.sleep(0.5)


def _busy():
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class Service:
    """The running worker service of one peer."""

    def __init__(self, commands, env, log):
        self.log = open(log, "wb")  # noqa: SIM115  # closed by stop()
        self.processes = [
            subprocess.Popen(
                argv, env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for argv in commands
        ]  # fmt: skip

    @property
    def pids(self):
        return [process.pid for process in self.processes]

    def alive(self):
        return all(process.poll() is None for process in self.processes)

    def stop(self):
        """End it, gently for a moment; only processes that it started are killed."""
        members = family(self.pids)
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 1.5
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.05, deadline - time.monotonic()))
        for pid in members:
            with contextlib.suppress(OSError, IndexError):
                if int(_stat(pid)[3]) in self.pids or pid in self.pids:
                    os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        self.log.close()
