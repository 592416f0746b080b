"""Whether it stays as fast when much is queued."""

import time

from benchmarks.cases.waiting import percentiles

SMALL = 1000
#: Records that each rate is measured with, and how often.
RECORDS, REPEATS = 3000, 5
#: Scheduled tasks whose lateness is measured, and milliseconds between their due times.
TIMED, GAP_MS = 300, 20


def growth(bench, n, plan):
    """Rates on the broker, one connection, and lateness: with `n` records ready and `n` scheduled, beside 1,000."""
    small = min(SMALL, n)
    records, timed = (50, 5) if bench.settings.smoke else (RECORDS, TIMED)
    bench.reset(2 * timed + 2)
    bench.inside("fill", ready=small, scheduled=small)
    few = bench.inside("rates", n=records, repeats=REPEATS)
    filled = bench.inside("fill", ready=n - small, scheduled=n - small)
    memory = bench.redis.snapshot()["memory"]
    many = bench.inside("rates", n=records, repeats=REPEATS)
    out = {"fill_per_s": filled["per_s"], "memory_mb": round(memory / 2**20)}
    for key, rate in many.items():
        out |= {key: rate, f"{key}_at_{small}": few[key]}
        if key.endswith("_per_s"):
            out[key.replace("_per_s", "_ratio")] = round(rate / few[key], 3)
    return out | lateness(bench, plan, timed) | {"plan": plan}


def lateness(bench, plan, timed):
    """Return how late scheduled tasks start: while the worker drains the backlog, and when only scheduled ones wait."""
    out = {}
    with bench.service(plan) as service:
        bench.inside("first", i=2 * timed)
        bench.wait(service, 1, 30, pause=0.02)
        bench.inside("timed", n=timed, start=0, gap_ms=GAP_MS)
        bench.wait(service, timed + 1, bench.settings.limit_s)
        out["ready_left"] = ready_left(bench)
        deadline = time.monotonic() + 10 * bench.settings.limit_s
        while ready_left(bench) and service.alive() and time.monotonic() < deadline:
            time.sleep(0.2)
        bench.rest(1)
        bench.inside("timed", n=timed, start=timed, gap_ms=GAP_MS)
        bench.wait(service, 2 * timed + 1, bench.settings.limit_s)
        out["scheduled_left"] = bench.redis.command("ZCARD", bench.peer.key("scheduled"))
    due, started, _, _ = bench.columns()
    for name, numbers in (("busy", range(timed)), ("late", range(timed, 2 * timed))):
        waits = [(started[i] - due[i]) / 1e6 for i in numbers if started[i]]
        out |= {f"{name}_{key}": value for key, value in percentiles(waits).items()}
        out[f"{name}_unfinished"] = timed - len(waits)
    return out


def ready_left(bench):
    return bench.redis.command("ZCARD", bench.peer.key("ready"))
