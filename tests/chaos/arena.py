"""The servers and processes of one run, each worker and producer behind a proxy of its own."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import servers
from tests.chaos import history, releases
from tests.databases.engines import ENGINES, Engine
from tests.processes import ROOT, WorkerProcess, is_alive
from tests.redis.proxy import Proxy

#: Seconds of a lease: short, so that much happens in little time.
LEASE = 3
PRODUCERS = 3
#: The flags of each worker. The last one but one has a clock that is shifted, the last one runs the older release.
WORKERS = (
    ("--processes", "2", "--threads", "4", "--coroutines", "4"),
    ("--processes", "2", "--threads", "2", "--coroutines", "8", "--max-tasks", "200"),
    ("--processes", "1", "--threads", "4", "--coroutines", "4"),
)
SHIFTED, OLDER = 1, 2
DURABLE = {
    "postgresql": ("-c", "synchronous_commit=on"),
    "mariadb": ("--innodb-flush-log-at-trx-commit=2",),
}


def clock_library() -> str | None:
    """Find libfaketime, as Debian installs it."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    return found[0] if found else None


class Worker:
    """A `runtaskworker` that is started again whenever it has ended."""

    def __init__(self, name: str, flags: tuple[str, ...], environment: dict[str, str], cwd: Path, log: Path) -> None:
        self.name = name
        self.is_ordered_to_end = False
        #: It isn't started again before this is taken back.
        self.is_held_back = False
        self._arguments = (*flags, "--shutdown-timeout", "5"), environment, log
        self._cwd = cwd
        self.process: WorkerProcess | None = None
        self._since = 0.0
        self._log_start = 0

    def start(self) -> None:
        flags, environment, log = self._arguments
        self.is_ordered_to_end = False
        self.process = WorkerProcess(flags, environment, log, settings="tests.chaos.project", cwd=self._cwd)
        self._since = time.monotonic()
        self._log_start = len(self.process.log)
        history.note("start", worker=self.name, process=self.process.pid)

    def collect(self) -> bool:
        """Note the end of the process; tell whether there is none any more."""
        if self.process is not None and (code := self.process.process.poll()) is not None:
            self._note_exit(code, self.is_ordered_to_end)
        return self.process is None

    def stop(self) -> None:
        """Let it end what it is about."""
        if self.process is not None:
            self._note_exit(self.process.stop(40), True)

    def _note_exit(self, code: int, ordered: bool) -> None:
        """Note an exit, and whether it came before the process was done with its start."""
        assert self.process is not None
        served = " serves " in self.process.log[self._log_start :]
        history.note("exit", worker=self.name, code=code, ordered=ordered, began=self._since, served=served)
        # Children notice the end of their supervisor by themselves; nobody waits for that here.
        self.process = None

    def signal(self, number: int, ends: bool = False) -> None:
        if self.process is not None:
            self.is_ordered_to_end |= ends
            self.process.signal(number)

    def signal_all(self, number: int) -> None:
        """Send a signal to the whole group: the machine, as far as this worker knows."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def children(self) -> list[int]:
        return [] if self.process is None else self.process.children()

    def everyone(self) -> list[int]:
        return [] if self.process is None else [self.process.pid, *self.children()]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill_group()


class Client:
    """A producer or a person: started again under another name whenever it was killed."""

    def __init__(self, module: str, name: str, environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._module = module
        self._environment = environment
        self._log = log
        self._round = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._round += 1
        command = [sys.executable, "-m", self._module, f"{self.name}.{self._round}"]
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=log, stderr=log)

    def kill(self) -> int:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)
        return self.process.pid

    def stop(self) -> int:
        """Let it end what it is about, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)


class Redis:
    """The server, which keeps what it acknowledged over a crash, unless it is told to forget."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._copy = folder.with_name("redis-copy")
        found = servers.binaries()
        self.server = servers.Server(
            found["redis"] or found["valkey"] or "",
            # Written before each reply, and the machine goes on: there is no need to wait for the disk.
            *("--appendonly", "yes", "--appendfsync", "no"),
            folder=str(folder),
        ).start()
        self._data = folder / "appendonlydir"

    def copy(self) -> None:
        """Keep what it holds now."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._data, self._copy)

    def forget(self, back_to_copy: bool = False) -> None:
        """Lose all, or all since the copy; it must not run."""
        shutil.rmtree(self._data)
        if back_to_copy:
            self._copy.rename(self._data)


class Arena:
    """Everything that runs."""

    def __init__(self, folder: Path, seed: int, database: str, commit: str | None) -> None:
        self.folder = folder
        os.environ[history.FILE] = str(folder / "history.jsonl")
        self.closing = contextlib.ExitStack()
        self.redis = Redis(folder / "redis")
        self.closing.callback(self.redis.server.close)
        self.engine: Engine | None = None
        self._entry = self._database(database)
        self.environment = self._environment("observer", self.redis.server.unix_url)
        self.proxies: list[Proxy] = []
        older = folder / "older"
        self.releases = {"this tree": ROOT, releases.older(older, commit): older}
        library = clock_library()
        self.clock = folder / "clock" if library else None
        self.set_clock(0)
        self.workers = [self._worker(number, library) for number in range(len(WORKERS))]
        self.clients = [self._client("produce", f"producer-{seed}-{number}") for number in range(PRODUCERS)]
        self.clients.append(self._client("person", f"person-{seed}"))

    def _database(self, name: str) -> dict[str, Any] | None:
        if name == "none":
            return None
        if name == "sqlite":
            options = {"init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE", "timeout": 20}
            file = str(self.folder / "records.sqlite3")
            return {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "OPTIONS": options}
        # What was committed stays over a crash of the server: its log is written at each commit.
        self.engine = ENGINES[name](*DURABLE[name]).start()
        self.closing.callback(self.engine.close)
        return self.engine.settings()

    def _environment(self, who: str, url: str) -> dict[str, str]:
        given = json.dumps({"url": url, "lease": LEASE, "database": self._entry})
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "tests.chaos.project",
            history.GIVEN: given,
            history.WHO: who,
        }

    def _behind_proxy(self, who: str) -> dict[str, str]:
        self.proxies.append(Proxy(self.redis.server.port))
        self.closing.callback(self.proxies[-1].close)
        return self._environment(who, self.proxies[-1].url)

    def _worker(self, number: int, library: str | None) -> Worker:
        name = f"worker-{number}"
        environment = self._behind_proxy(name)
        if number == SHIFTED and library:
            environment |= {
                "LD_PRELOAD": library,
                "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        cwd = list(self.releases.values())[number == OLDER]
        worker = Worker(name, WORKERS[number], environment, cwd, self.folder / f"{name}.log")
        self.closing.callback(worker.close)
        return worker

    def _client(self, module: str, name: str) -> Client:
        client = Client(f"tests.chaos.{module}", name, self._behind_proxy(name), self.folder / f"{name}.log")
        self.closing.callback(lambda: client.process and client.kill())
        return client

    def set_clock(self, seconds: int) -> None:
        """Shift the clock of one worker."""
        if self.clock is not None:
            self.clock.write_text(f"{seconds:+d}\n")

    def manage(self, *command: str, timeout: float = 300) -> None:
        """Run a module with the settings of the run, off the proxies."""
        subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=self.environment, check=True, timeout=timeout)

    def start(self) -> None:
        if self._entry is not None:
            self.manage("django", "migrate", "--run-syncdb", "--verbosity", "0")
        for one in (*self.workers, *self.clients):
            one.start()

    def look(self) -> None:
        """Start workers again that have ended."""
        for worker in self.workers:
            if worker.collect() and not worker.is_held_back:
                worker.start()

    @contextlib.contextmanager
    def looking_after(self) -> Iterator[None]:
        """Start workers again that end meanwhile."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.1):
                self.look()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()

    def wake(self) -> None:
        """Let go on what is frozen."""
        for worker in self.workers:
            for pid in worker.everyone():
                if is_alive(pid):
                    os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self.closing.close()
