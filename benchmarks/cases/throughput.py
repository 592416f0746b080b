"""How many tasks go in and out, at which cost."""

from benchmarks.processes import cpu_seconds, memory_mb


def enqueue(bench, n, bulk=False):
    """One process enqueues `n` no-op tasks, one call after the other."""
    warm = 0 if bulk else min(100, n)
    bench.reset(n + warm)
    before = bench.redis.snapshot()
    got = bench.inside("bulk" if bulk else "enqueue", task="noop", n=n, warm=warm)
    after = bench.redis.snapshot()
    total = n + warm
    return {
        "per_s": round(n / got["wall"]),
        "cpu_us": round(got["cpu"] / n * 1e6, 1),
        "commands": round((after["commands"] - before["commands"]) / total, 2),
        "reads": round((after["reads"] - before["reads"]) / total, 3),
        "redis_cpu_us": round((after["cpu"] - before["cpu"]) / total * 1e6, 1),
    }


def bulk(bench, n):
    """The same through the peer's own bulk API, 1,000 tasks a call."""
    return enqueue(bench, n, bulk=True) if bench.peer.bulk else None


def memory(bench, n):
    """Redis memory per queued task."""
    if bench.broker != "redis":
        return None
    return {"bytes": round(queued_memory(bench, n))}


def queued_memory(bench, n, **options):
    """Return the bytes that a queued task takes."""
    bench.reset(n)
    before = bench.redis.snapshot()["memory"]
    action = "bulk" if bench.peer.bulk else "enqueue"
    bench.inside(action, task="noop", n=n, warm=0, **options)
    bench.rest(0.3)
    return (bench.redis.snapshot()["memory"] - before) / n


def drain(bench, n, plan, task="noop"):
    """`n` tasks are queued, then the worker starts: from the first to the last completion."""
    bench.reset(n)
    bench.fill(task, n)
    before = bench.redis.snapshot()
    with bench.service(plan) as service:
        early = bench.wait(service, 1, 20, pause=0.005)
        cpu = cpu_seconds(service.pids)
        bench.wait(service, n, bench.settings.limit_s)
        cpu = cpu_seconds(service.pids) - cpu
        pss = memory_mb(service.pids)
        bench.rest(0.3)  # for trailing acknowledgements
        after = bench.redis.snapshot()
        rows = bench.peer.rows(bench, n) if bench.peer.needs_postgres(bench.variant) else None
    out = speed(bench, n, task)
    got = n - out["unfinished"]
    if rows:  # as fast as the rows are there
        out |= rows | {"per_s": round((got - 1) / max(1e-9, (rows["last_row"] - out["first"]) / 1e9), 1)}
    return {
        **{key: value for key, value in out.items() if key not in ("first", "last_row")},
        "worker_cpu_us": round(cpu / max(1, got - early) * 1e6, 1),
        **traffic(before, after, got),
        "pss_mb": pss,
        "plan": plan,
    }


def speed(bench, n, task):
    """Return what the board says about a drain."""
    _, started, ended, runs = bench.columns()
    stamps = sorted(x for x in ended if x)
    got = len(stamps)
    if got < 2:
        raise RuntimeError(f"{bench.who}: {got} tasks ran, see {bench.log}")
    first = min(x for x in started if x) if task == "nap" else stamps[0]
    low, high = got // 10, got * 9 // 10
    return {
        "per_s": round((got - 1) / max(1e-9, (stamps[-1] - first) / 1e9), 1),
        "mid_per_s": round((high - low) / max(1e-9, (stamps[high] - stamps[low]) / 1e9), 1),
        "unfinished": n - got,
        "twice": sum(runs) - got,
        "first": first,
    }


def traffic(before, after, got):
    """Return what a task cost Redis, between two snapshots."""
    calls = {key: round((count - before["calls"].get(key, 0)) / got, 3) for key, count in after["calls"].items()}
    return {
        "commands": round((after["commands"] - before["commands"]) / got, 2),
        "reads": round((after["reads"] - before["reads"]) / got, 3),
        "net_bytes": round((after["bytes"] - before["bytes"]) / got),
        "redis_cpu_us": round((after["cpu"] - before["cpu"]) / got * 1e6, 1),
        "calls": {key: rate for key, rate in sorted(calls.items()) if rate >= 0.01},
    }


def io(bench, n, plan):
    """As drain, with tasks that sleep 10 ms."""
    return drain(bench, n, plan, task="nap")


def coroutines(bench, n, plan):
    """As io, in the variant whose tasks are coroutine functions, many at once in one child."""
    return drain(bench, n, plan, task="nap")
