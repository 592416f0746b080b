"""What django_taskq is to reach, and whether it did: a row for each target."""

from dataclasses import dataclass

from benchmarks.results import Results, grid, show

OURS = "django_taskq"
HUEY = "huey:thread"
#: What 50 slots allow that sleep 10 ms.
IO_LIMIT = 5000


@dataclass(frozen=True)
class Target:
    """One row. `limit` is the least, or with `most` the greatest value that meets it."""

    what: str
    limit: float
    unit: str
    measured: float | None
    detail: str = ""
    most: bool = False

    @property
    def met(self):
        if self.measured is None:
            return "not measured"
        return "yes" if (self.measured <= self.limit if self.most else self.measured >= self.limit) else "**no**"

    def row(self):
        bound = f"{'at most' if self.most else 'at least'} {show_limit(self.limit)}"
        measured = "-" if self.measured is None else f"{show(self.measured)}{self.unit}"
        return [self.what, f"{bound}{self.unit}", measured, self.detail or "-", self.met]


def show_limit(value):
    return f"{value:,}"


def targets(results: Results):
    """Return all targets with what was measured, in the order of the issue's table."""
    return [*_throughput(results), *_waiting(results), *_memory(results), *_growth(results), _records(results)]


def _against(results, what, base, case, limit, field="per_s", *, most=False, unit=" x"):
    value, other = results.value(OURS, case, field), results.value(base, case, field)
    detail = f"{show(value)} : {show(other)}" if value is not None and other is not None else ""
    return Target(what, limit, unit, results.ratio(OURS, base, case, field), detail, most)


def _throughput(results):
    yield _against(results, "drain of no-ops, beside bullmq", "bullmq", "drain", 1.3)
    yield _against(results, "drain of no-ops, beside dramatiq", "dramatiq", "drain", 2.6)
    yield Target("worker CPU per task", 50, " µs", results.value(OURS, "drain", "worker_cpu_us"), most=True)
    yield Target("reads per task in the drain", 0.3, "", results.value(OURS, "drain", "reads"), most=True)
    yield _against(results, "enqueue one at a time, beside bullmq", "bullmq", "enqueue", 1)
    yield _against(results, "bulk enqueue, beside bullmq", "bullmq", "bulk", 2)
    io = results.value(OURS, "io", "per_s")
    yield Target("tasks that sleep 10 ms on 50 threads", 93, " %", io and io / IO_LIMIT * 100, f"{show(io)}/s")
    coroutines = results.value(f"{OURS}:async", "coroutines", "per_s")
    yield Target("coroutines that sleep 10 ms, one child, 1,000 at once", 20_000, "/s", coroutines)


def _waiting(results):
    yield _against(results, "latency p50, beside huey with threads", HUEY, "latency", 1.3, "p50_ms", most=True)
    yield Target("latency p99", 2, " ms", results.value(OURS, "latency", "p99_ms"), most=True)
    for case, queues in (("idle", "1 queue"), ("idle-queues", "50 queues")):
        get, per_child = results.value, "reads_per_s_child"
        yield Target(f"idle, {queues}: reads per child", 1, "/s", get(OURS, case, per_child), most=True)
        yield Target(f"idle, {queues}: CPU of the worker", 0.3, " %", get(OURS, case, "worker_cpu_pct"), most=True)
    yield _latency_with_queues(results)
    yield Target("latency p99, 50 queues", 2, " ms", results.value(OURS, "latency-queues", "p99_ms"), most=True)
    for key, what in (("alone", "settled after its end, alone"), ("beside", "settled after its end, others run on")):
        value = results.value(OURS, "settle", f"{key}_p99_ms")
        yield Target(
            f"{what}: p99", 5, " ms", value, f"p50 {show(results.value(OURS, 'settle', f'{key}_p50_ms'))} ms", True
        )


def _latency_with_queues(results):
    """Compare a case that huey has not with the one that it has."""
    ours, theirs = results.value(OURS, "latency-queues", "p50_ms"), results.value(HUEY, "latency", "p50_ms")
    known = ours is not None and theirs is not None
    detail = f"{show(ours)} : {show(theirs)}" if known else ""
    return Target(
        "latency p50, 50 queues, beside huey with threads", 1.3, " x", ours / theirs if known else None, detail, True
    )


def _memory(results):
    yield Target("memory per queued task, small payload", 430, " B", results.value(OURS, "memory", "bytes"), most=True)
    line = results.last(OURS, "memory-large")
    detail = ", ".join(f"{tag}: {size:,} B" for tag, size in line["bytes"].items()) if line else ""
    # Two hundredths for what the measured memory wobbles by.
    ratio = line and line["growth_ratio"]
    yield Target("its growth, beside plain strings of that length", 1.02, " x", ratio, detail, True)


def _growth(results):
    line = results.last(OURS, "growth") or {}
    size = f"{line['n']:,} ready and scheduled" if line else "many ready and scheduled"
    for name in ("enqueue", "claim", "settle"):
        small = next((key for key in line if key.startswith(f"{name}_per_s_at_")), None)
        detail = f"{show(line[f'{name}_per_s'])} : {show(line[small])} at {small.rpartition('_')[2]}" if small else ""
        yield Target(f"{name} with {size}", 0.8, " x", line.get(f"{name}_ratio"), detail)
    yield Target(f"scheduled tasks start late, {size}: p99, worker idle", 20, " ms", line.get("late_p99_ms"), most=True)
    left = f"{line['ready_left']:,} still ready at the end" if line else ""
    yield Target("the same while it drains the ready ones: p99", 20, " ms", line.get("busy_p99_ms"), left, True)


def _records(results):
    rows = f"{OURS}:records"
    detail = f"{show(results.value(rows, 'drain', 'per_s'))}/s"
    return Target("drain with rows in PostgreSQL, beside none", 0.5, " x", results.ratio(rows, OURS, "drain"), detail)


def table(results):
    return grid(
        ["case", "target", "measured", "ours : theirs, or more", "met"], [one.row() for one in targets(results)]
    )
