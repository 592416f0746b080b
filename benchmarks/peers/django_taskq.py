"""django_taskq on Redis: leases, fencing and durable settling on, results kept for a day, Django set up.

default  functions, run in threads
async    coroutine functions, run in the children's event loops, on uvloop (as `[fast]` installs it)
records  functions, and each ended task has a row with its result in PostgreSQL
"""

import subprocess
import time

from benchmarks import probe
from benchmarks.peer import COMMON, ROOT
from benchmarks.peers._django import DjangoPeer

SIZES = ((1, 16), (2, 8), (2, 16), (2, 32), (2, 64))


class Adapter(DjangoPeer):
    # The package itself is that of the checkout.
    requirements = ["Django==6.1.3", "redis==8.1.0", "hiredis==3.5.0", "uvloop==0.23.0", "psycopg[binary]==3.3.9"]
    site = "django_taskq"
    variants = ["default", "async", "records"]
    bulk = True
    prepares = False  # nothing is kept between runs but in the servers, which are emptied
    plans = {
        "default": [{"procs": p, "threads": t} for p, t in SIZES],
        "async": [{"procs": p, "threads": 8, "coroutines": c} for p in (1, 2) for c in (100, 1000)],
    }
    io_plans = {"default": {"procs": 1, "threads": 50}, "async": {"procs": 1, "threads": 8, "coroutines": 1000}}
    scales = {"default": 3}  # too quick to time otherwise
    note = "at least once, fenced; results kept for a day, with records also in rows"

    def cases(self, variant):
        return {
            "default": (
                *COMMON, "idle-queues", "latency-queues", "memory-large", "settle", "growth", "scaling", "scaling-io",
            ),
            "async": ("drain", "latency", "coroutines"),
            "records": ("drain",),
        }[variant]  # fmt: skip

    def needs_postgres(self, variant):
        return variant == "records"

    def versions(self, python):
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return [f"django_taskq=={git.stdout.strip() or 'of this folder'}", *super().versions(python)]

    def worker(self, python, variant, plan):
        flags = ["--processes", str(plan["procs"]), "--threads", str(plan["threads"])]
        if "coroutines" in plan:
            flags += ["--coroutines", str(plan["coroutines"])]
        return [
            self.admin(python, "runtaskworker", "--name", f"bench-{number}", *flags)
            for number in range(plan.get("workers", 1))
        ]

    def key(self, place):
        """Return the key that lists the records of the default queue in a place."""
        return f"{{taskq}}:queue:default:{place}"

    def stored_length(self, bench, tag):
        """Return how long the string is that Redis keeps for a task with so long a payload."""
        bench.reset(1)
        bench.inside("enqueue", task="noop", n=1, warm=0, tag=tag)
        cursor, keys = "0", []
        while not keys:
            cursor, keys = bench.redis.command("SCAN", cursor, "MATCH", "{taskq}:task:*", "COUNT", 100)
        return bench.redis.command("STRLEN", keys[0])

    def rows(self, bench, n):
        """Return how many rows the database has, and when (monotonic ns) it committed the last of them."""
        statement = (
            "SELECT count(*), extract(epoch FROM max(pg_xact_commit_timestamp(xmin))) "
            "FROM django_taskq_taskrecord WHERE status = 'succeeded'"
        )
        deadline = time.monotonic() + bench.settings.limit_s
        count, last = bench.postgres.query(statement)
        while int(count) < n:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{count} rows of {n} in PostgreSQL")
            time.sleep(0.1)
            count, last = bench.postgres.query(statement)
        return {"rows": int(count), "last_row": round(float(last) * 1e9) - time.time_ns() + time.monotonic_ns()}

    def open(self):
        super().open()
        from benchmarks.peers import _taskq_tasks

        self.tasks = _taskq_tasks

    def enqueue(self, task, i, tag):
        self._task(task).enqueue(i, tag)

    def enqueue_many(self, task, numbers, tag):
        self._task(task).enqueue_many([((i, tag), {}) for i in numbers])

    def _task(self, name):
        return getattr(self.tasks, "a" + name if probe.VARIANT == "async" else name)

    def __getattr__(self, name):
        if name.startswith("do_"):
            from benchmarks.peers import _taskq_actions

            return getattr(_taskq_actions, name.removeprefix("do_"))
        raise AttributeError(name)
