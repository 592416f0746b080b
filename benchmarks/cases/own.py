"""What only django_taskq is asked: many queues, large payloads, settling, scaling."""

from benchmarks.cases.throughput import drain, queued_memory
from benchmarks.cases.waiting import idle, latency, percentiles

MANY_QUEUES = 50
#: Characters of the payload's string; the first is the usual one.
TAGS = (18, 100, 300, 1000, 3000, 10_000)
#: Worker services beside each other, and children in each.
SCALES = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2))


def idle_queues(bench, seconds, plan):
    """As idle, with 50 queues."""
    return idle(bench, seconds, {**plan, "queues": MANY_QUEUES})


def latency_queues(bench, n, plan):
    """As latency, with 50 queues, of which the last is used."""
    return latency(bench, n, {**plan, "queues": MANY_QUEUES})


def memory_large(bench, n):
    """How memory grows with the payload, beside how it grows for plain strings of the same lengths in Redis."""
    tags = TAGS[::4] if bench.settings.smoke else TAGS
    queued = {tag: queued_memory(bench, n, tag=tag) for tag in tags}
    lengths = {tag: bench.peer.stored_length(bench, tag) for tag in tags}
    plain = {tag: _plain_memory(bench, n, length) for tag, length in lengths.items()}
    small = tags[0]
    growth = sum(queued[tag] - queued[small] for tag in tags)
    own = sum(plain[tag] - plain[small] for tag in tags)
    return {
        "bytes": {str(tag): round(value) for tag, value in queued.items()},
        "plain_bytes": {str(tag): round(value) for tag, value in plain.items()},
        "growth_ratio": round(growth / own, 3),
    }


def _plain_memory(bench, n, length):
    bench.redis.wipe()
    for i in range(n):  # once, so that the table of keys has its size
        bench.redis.command("SET", f"{i:032}", "")
    before = bench.redis.snapshot()["memory"]
    for i in range(n):
        bench.redis.command("SET", f"{i:032}", "x" * length)
    return (bench.redis.snapshot()["memory"] - before) / n


def settle(bench, n, plan):
    """How long after its end a task is settled in Redis: alone, and while all slots but one hold tasks that run on."""
    out = {"plan": plan}
    for name, holding in (("alone", 0), ("beside", plan["procs"] * plan["threads"] - 1)):
        bench.reset(n + 10)
        with bench.service(plan) as service:
            bench.warm_up(service, 10, start=n)
            got = bench.inside("settle", n=n, holding=holding)
        out |= {f"{name}_{key}": value for key, value in percentiles(got["delays_ms"]).items()}
    return out


def scaling(bench, n, plan):
    """Throughput of no-ops by children, and by two workers on one Redis."""
    return {"by": _by_scale(bench, n, plan["threads"], "noop")}


def scaling_io(bench, n, plan):
    """Throughput of tasks that sleep 10 ms, 50 threads a child."""
    return {"by": _by_scale(bench, n, plan["threads"], "nap")}


def _by_scale(bench, n, threads, task):
    scales = SCALES[1::3] if bench.settings.smoke else SCALES
    return [
        {
            **{key: found[key] for key in ("per_s", "worker_cpu_us", "redis_cpu_us", "reads", "unfinished", "twice")},
            "workers": workers,
            "procs": procs,
            "threads": threads,
        }
        for workers, procs in scales
        for found in [drain(bench, n, {"workers": workers, "procs": procs, "threads": threads}, task)]
    ]
