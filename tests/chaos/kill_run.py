"""Kill a child every second while producers enqueue, then say what became of each task that was accepted.

``python -m tests.chaos.kill_run --seconds 60``: two workers of two children, four producers. Exits 1 when a task was
lost, ended twice, ran concurrently under one token, or got more attempts than it may; with ``--database postgresql``
also when its row is missing or says something else than Redis.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import servers
from tests.chaos.notes import NOTES
from tests.chaos.rows import Database
from tests.processes import WorkerProcess

ROOT = Path(__file__).resolve().parents[2]
WORKERS, CHILDREN, THREADS, PRODUCERS = 2, 2, 4, 4
#: Seconds that what is left may take after the last kill.
PATIENCE = 90
ENDED = ("succeeded", "dead")


class KillRun:
    """One run, on a server of its own."""

    def __init__(self, folder: Path, seed: int, database: str) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.database = None if database == "none" else Database(database, folder)
        found = servers.binaries()
        self.server = servers.Server(found["redis"] or found["valkey"] or "").start()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "tests.chaos.project",
            "TASKQ_TEST_URL": self.server.unix_url,
            NOTES: str(folder / "notes"),
        }
        if self.database is not None:
            self.environment |= self.database.environment
            self.database.migrate(self.environment)
        flags = ("--processes", str(CHILDREN), "--threads", str(THREADS))
        self.workers = [self._worker(flags, n) for n in range(WORKERS)]
        self.producers = [self._producer(seed * PRODUCERS + n) for n in range(PRODUCERS)]
        self.kills: list[float] = []

    def _worker(self, flags: tuple[str, ...], number: int) -> WorkerProcess:
        log = self.folder / f"worker-{number}.log"
        return WorkerProcess(flags, self.environment, log, settings="tests.chaos.project")

    def _producer(self, seed: int) -> subprocess.Popen[bytes]:
        with open(self.folder / f"accepted-{seed}", "wb") as accepted:
            command = [sys.executable, "-m", "tests.chaos.produce", str(seed)]
            return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=accepted)

    def run(self, seconds: float) -> None:
        """Kill a child each second, and stop the producers."""
        end = time.monotonic() + seconds
        next_kill = time.monotonic() + 1
        while time.monotonic() < end:
            time.sleep(max(0, next_kill - time.monotonic()))
            next_kill += 1
            if children := [pid for worker in self.workers for pid in worker.children()]:
                os.kill(self.random.choice(children), signal.SIGKILL)
                self.kills.append(time.monotonic())
        for producer in self.producers:
            producer.terminate()
        for producer in self.producers:
            producer.wait(10)

    def accepted(self) -> dict[str, str]:
        """Return the kind of each accepted task, by its id."""
        lines = [line for path in self.folder.glob("accepted-*") for line in path.read_text().splitlines()]
        return dict(line.split(" ", 1) for line in lines)  # type: ignore[misc]

    def close(self) -> None:
        for worker in self.workers:
            worker.kill_group()
        for producer in self.producers:
            producer.kill()
            producer.wait(10)
        self.server.close()
        if self.database is not None:
            self.database.close()


def records_when_ended(run: KillRun, ids: list[str]) -> list:
    """Wait until every record has ended or the patience is over, and return them."""
    from django_taskq.broker.broker import Broker
    from django_taskq.broker.inspector import Inspector

    inspector = Inspector(Broker.from_url(run.server.unix_url))
    deadline = time.monotonic() + PATIENCE
    while True:
        records = inspector.records(ids)
        if all(record and record.state in ENDED for record in records) or time.monotonic() > deadline:
            return records
        time.sleep(0.1)


def verdict(accepted: dict[str, str], records: list, notes: list[list[str]]) -> tuple[dict[str, object], list[str]]:
    """Count what happened; the list names what must not."""
    faults: list[str] = []
    begun = collections.Counter(note[1] for note in notes if note[0] == "begin")
    tokens = collections.Counter((note[1], note[2]) for note in notes if note[0] == "begin")
    states = collections.Counter(str(record.state) if record else "lost" for record in records)
    for (record_id, kind), record in zip(accepted.items(), records, strict=True):
        if record is None or record.state not in ENDED:
            faults.append(f"{record_id} {kind}: {record.state if record else 'lost'}")
            continue
        endings = [attempt for attempt in record.history if attempt.error is None]
        if len(endings) != (record.state == "succeeded"):
            faults.append(f"{record_id} {kind}: {record.state} with {len(endings)} successes")
        if record.attempts > record.envelope.max_attempts:
            faults.append(f"{record_id} {kind}: {record.attempts} attempts")
        if (record.state == "dead") != (kind == "fail"):
            faults.append(f"{record_id} {kind}: {record.state}")
        grown = [attempt.token for attempt in record.history]
        if grown != sorted(set(grown)):
            faults.append(f"{record_id} {kind}: tokens {grown}")
    reasons = collections.Counter(
        attempt.error.reason for record in records if record for attempt in record.history if attempt.error
    )
    table = {
        "tasks accepted": len(accepted),
        "succeeded": states["succeeded"],
        "dead": states["dead"],
        "lost, or not ended": len(accepted) - states["succeeded"] - states["dead"],
        "attempts ended by a kill": reasons["worker lost"],
        "attempts ended by a lapsed lease": reasons["lease expired"],
        "tasks begun more than once": sum(count > 1 for count in begun.values()),
        "runs resumed under the same token": sum(count > 1 for count in tokens.values()),
    }
    return table, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--database", choices=["none", "sqlite", "postgresql", "mariadb"], default="none")
    options = parser.parse_args()
    print(f"seed {options.seed}: {WORKERS} workers of {CHILDREN} children, {PRODUCERS} producers, a kill each second")
    with tempfile.TemporaryDirectory(prefix="taskq-kill-run-") as folder:
        run = KillRun(Path(folder), options.seed, options.database)
        try:
            run.run(options.seconds)
            accepted = run.accepted()
            stopped_at = time.monotonic()
            records = records_when_ended(run, list(accepted))
            drained = time.monotonic() - stopped_at
            exits = [worker.stop(40) for worker in run.workers]
            notes = [line.split() for line in Path(folder, "notes").read_text().splitlines()]
            table, faults = verdict(accepted, records, notes)
            if run.database is not None:
                counted, differing = run.database.faults(records, run.environment)
                table |= counted
                faults += differing
            if exits != [0] * WORKERS:
                faults.append(f"the workers exited with {exits}:\n{run.workers[0].log[-3000:]}")
        finally:
            run.close()
    table |= {"children killed": len(run.kills), "seconds to drain afterwards": f"{drained:.1f}"}
    for name, value in table.items():
        print(f"{name:36}{value:>10}")
    for fault in faults[:20]:
        print("FAULT", fault)
    print("FAILED" if faults else "every accepted task ended once")
    return 1 if faults or not run.kills or not accepted else 0


if __name__ == "__main__":
    sys.exit(main())
