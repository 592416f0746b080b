"""redis-benchmark, the C client that comes with Redis: what the server itself can take.

Not a queue and without an environment: ``measure`` answers three of the cases.
enqueue  LPUSH, one connection, one at a time
bulk     LPUSH, one connection, 64 in each pipeline
drain    RPOP by 50 connections at once, one at a time each
"""

import pathlib
import subprocess

from benchmarks.peer import Peer

RUNS = {
    "enqueue": ["-c", "1", "-n", "60000", "lpush", "queue", "x" * 120],
    "bulk": ["-c", "1", "-P", "64", "-n", "600000", "lpush", "queue", "x" * 120],
    "drain": ["-c", "50", "-n", "200000", "rpop", "queue"],
}


class Adapter(Peer):
    note = "C client without any queue's work"

    def build(self, directory):
        return pathlib.Path("/usr/bin/redis-benchmark")

    def versions(self, python):
        told = subprocess.run([python, "--version"], capture_output=True, text=True)
        return [told.stdout.strip()]

    def measure(self, bench, case, n):
        if case not in RUNS:
            return None
        port = ["-p", str(bench.redis.port)]
        bench.redis.wipe()
        if case == "drain":  # something to take
            subprocess.run(
                [bench.python, *port, "-q", "-P", "64", "-n", "200000", "lpush", "queue", "x" * 120],
                check=True,
                capture_output=True,
            )
        done = subprocess.run(
            [bench.python, *port, "--csv", *RUNS[case]], check=True, capture_output=True, text=True, timeout=60
        )
        numbers = done.stdout.splitlines()[-1].split('","')
        bench.redis.wipe()
        return {"per_s": round(float(numbers[1])), "client_p50_ms": float(numbers[4])}
