"""One peer and variant with the servers it needs: what the cases are made of."""

import array
import contextlib
import json
import mmap
import os
import pathlib
import subprocess
import time

from benchmarks import probe
from benchmarks.peer import ROOT
from benchmarks.processes import Service


def board_path(cache):
    memory = pathlib.Path("/dev/shm")
    return (memory if memory.is_dir() else cache) / f"taskq-bench-{os.getpid()}.board"


class Bench:
    """Starts producers and workers of one variant, and reads the board."""

    def __init__(self, peer, variant, redis, postgres, settings):
        self.peer, self.variant = peer, variant
        self.redis, self.postgres, self.settings = redis, postgres, settings
        self.broker = peer.broker_for(variant)
        self.board_path = board_path(settings.cache)
        self.log = settings.cache / f"{peer.name}-{variant}.log"
        self.python = settings.python_for(peer)

    @property
    def who(self):
        return f"{self.peer.name}:{self.variant}".removesuffix(":default")

    def env(self, plan=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        env.update(
            BENCH_INSIDE="1",
            BENCH_BOARD=str(self.board_path),
            BENCH_REDIS_PORT=str(self.redis.port),
            BENCH_PG_PORT=str(self.postgres.port if self.postgres else 0),
            BENCH_VARIANT=self.variant,
            BENCH_CACHE=str(self.settings.cache),
            BENCH_PLAN=",".join(f"{k}={v}" for k, v in (plan or {}).items()),
            PYTHONPATH=str(ROOT),
            PYTHONDONTWRITEBYTECODE="1",
            PATH=f"{self.python.parent}:{env['PATH']}",
        )
        env.update({k: str(v) for k, v in self.peer.env(self.variant).items()})
        return env

    def reset(self, slots):
        """Empty the servers, and make a board of so many slots."""
        self.redis.wipe()
        if self.postgres and self.peer.needs_postgres(self.variant):
            self.postgres.wipe()
        probe.create(self.board_path, slots)
        with open(self.board_path, "r+b") as file:
            self.board = mmap.mmap(file.fileno(), 0)
        if self.peer.prepares or self.peer.needs_postgres(self.variant):
            self.inside("prepare")

    def inside(self, action, **options):
        """Run a producer to its end, and return what it printed."""
        argv = self.peer.producer(self.python, action, options)
        timeout = self.settings.limit_s * 10
        done = subprocess.run(argv, env=self.env(), cwd=ROOT, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise RuntimeError(f"{self.who} {action}: {done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def fill(self, task, n):
        """Queue `n` tasks before a drain, the quick way where there is one."""
        return self.inside("bulk" if self.peer.bulk else "enqueue", task=task, n=n, warm=0)

    @contextlib.contextmanager
    def service(self, plan):
        service = Service(self.peer.worker(self.python, self.variant, plan), self.env(plan), self.log)
        try:
            yield service
        finally:
            service.stop()

    def columns(self):
        """Return the board: enqueued, started, ended, runs."""
        words = array.array("Q")
        words.frombytes(self.board[:])
        return words[0::4], words[1::4], words[2::4], words[3::4]

    def done(self):
        """Return how many tasks ran."""
        words = array.array("Q")
        words.frombytes(self.board[:])
        runs = words[3::4]
        return len(runs) - runs.count(0)

    def wait(self, service, target, limit_s, pause=0.05):
        """Wait until `target` tasks ran or the time is over; return how many did."""
        deadline = time.monotonic() + limit_s
        while True:
            done = self.done()
            if done >= target or time.monotonic() > deadline:
                return done
            if not service.alive():
                raise RuntimeError(f"{self.who}: the worker ended, see {self.log}")
            time.sleep(pause)

    def warm_up(self, service, n, start):
        """Run `n` tasks in slots from `start` on, so that everything is loaded."""
        self.inside("enqueue", task="noop", n=n, start=start, warm=0)
        if self.wait(service, n, 30, pause=0.02) < n:
            raise RuntimeError(f"{self.who}: no warm-up, see {self.log}")

    def rest(self, seconds):
        """Let things settle; hardly so in a smoke run."""
        time.sleep(min(seconds, 0.2) if self.settings.smoke else seconds)

    def calibrate(self):
        """Return how fast this machine is right now, which is stored with every measurement.

        `cal_rt`: closed-loop LPUSH round trips a second over a bare socket, the best of five short windows, since to
        wake an idle virtual core costs more than Redis does. `cal_py`: millions of turns of a plain Python loop.
        """
        if self.settings.smoke:
            return {}
        message = self.redis.encode("LPUSH", "calibration", "x" * 100)
        best = 0
        for _ in range(5):
            start, count = time.perf_counter(), 0
            while time.perf_counter() < start + 0.05:
                self.redis.sock.sendall(message)
                self.redis.sock.recv(64)
                count += 1
            best = max(best, count / (time.perf_counter() - start))
        start = time.perf_counter()
        total = 0
        for i in range(1_500_000):
            total += i & 3
        return {"cal_rt": round(best), "cal_py": round(1.5 / (time.perf_counter() - start), 2)}
