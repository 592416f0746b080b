"""What a worker with little to do is like."""

import statistics
import time

from benchmarks.processes import fine_cpu_seconds, memory_mb


def percentiles(values):
    """Return p50, p95 and p99 of some milliseconds."""
    values = [round(value, 4) for value in values]
    cuts = statistics.quantiles(values, n=100) if len(values) > 1 else values * 99
    return {"p50_ms": round(cuts[49], 3), "p95_ms": round(cuts[94], 3), "p99_ms": round(cuts[98], 3)}


def latency(bench, n, plan):
    """An idle worker, `n` tasks about 10 ms apart: from just before the enqueue call to the task's first line."""
    bench.reset(n + 40)
    with bench.service(plan) as service:
        bench.warm_up(service, 20, start=n + 20)
        bench.rest(1)
        bench.inside("pace", task="noop", n=n, warm=20, gap=0.010)
        bench.wait(service, n + 40, 20)
    asked, started, _, _ = bench.columns()
    waits = [(started[i] - asked[i]) / 1e6 for i in range(n) if started[i]]
    if len(waits) < 2:
        raise RuntimeError("no latency samples")
    return {**percentiles(waits), "unfinished": n - len(waits), "plan": plan}


def idle(bench, seconds, plan):
    """A worker with nothing to do, some time after its last task."""
    bench.reset(20)
    with bench.service(plan) as service:
        bench.warm_up(service, 20, start=0)
        bench.rest(3)
        before, cpu, start = bench.redis.snapshot(), fine_cpu_seconds(service.pids), time.monotonic()
        time.sleep(seconds)
        after, cpu2, end = bench.redis.snapshot(), fine_cpu_seconds(service.pids), time.monotonic()
        pss = memory_mb(service.pids)
    span = end - start

    def rate(name):  # one command, and one read, is our own
        return (after[name] - before[name] - 1) / span

    return {
        "commands_per_s": round(rate("commands"), 2),
        "reads_per_s": round(rate("reads"), 2),
        "reads_per_s_child": round(rate("reads") / plan.get("procs", 1), 3),
        "worker_cpu_pct": round((cpu2 - cpu) / span * 100, 2),
        "redis_cpu_pct": round((after["cpu"] - before["cpu"]) / span * 100, 2),
        "pss_mb": pss,
        "plan": plan,
    }
