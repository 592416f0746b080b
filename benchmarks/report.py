"""Turns JSON lines into markdown: versions, targets, and every number beside its peers'."""

from benchmarks import targets
from benchmarks.results import Results, grid, median, plan_text, show

#: The line that each case is compared against, and the number that is compared.
BASE = {"enqueue": "limit:pop", "bulk": "limit:pop", "drain": "limit:lua", "io": None, "latency": "limit:pop"}
VALUE = {"enqueue": "per_s", "bulk": "per_s", "drain": "per_s", "io": "per_s", "latency": "p50_ms"}

OVERVIEW = [
    ("enqueue/s", "enqueue", "per_s"),
    ("bulk/s", "bulk", "per_s"),
    ("drain/s", "drain", "per_s"),
    ("io/s", "io", "per_s"),
    ("p50 ms", "latency", "p50_ms"),
    ("p95 ms", "latency", "p95_ms"),
    ("p99 ms", "latency", "p99_ms"),
    ("worker CPU µs", "drain", "worker_cpu_us"),
    ("Redis CPU µs", "drain", "redis_cpu_us"),
    ("commands", "drain", "commands"),
    ("reads", "drain", "reads"),
    ("bytes queued", "memory", "bytes"),
    ("idle cmd/s", "idle", "commands_per_s"),
    ("idle CPU %", "idle", "worker_cpu_pct"),
    ("PSS MB", "drain", "pss_mb"),
]


def setting(results):
    """Return machine, versions and worker sizes."""
    out, rows = [], []
    for line in results.about:
        if line["case"] == "machine":
            known = {k: v for k, v in line.items() if k != "case" and v is not None}
            out.append("- " + ", ".join(f"{key}: {value}" for key, value in known.items()))
        elif line["case"] == "left out":
            out.append(f"- left out: {line['who']}: {line['why']}")
        elif line["case"] == "stopped":
            out.append(f"- stopped early: {line['why']}")
    for who in results.names:
        plan = plan_text((results.last(who, "drain") or {}).get("plan"))
        versions, note = results.versions(who)
        rows.append([who, ", ".join(versions), plan or "-", note or "-"])
    return "\n".join(out) + "\n\n" + grid(["peer", "versions", "worker of the drain", "contract and settings"], rows)


def overview(results):
    rows = [[who, *(show(results.value(who, case, field)) for _, case, field in OVERVIEW)] for who in results.names]
    return grid(["peer", *(head for head, _, _ in OVERVIEW)], rows)


def detail(results, case):
    field, base = VALUE[case], BASE[case]
    names = [who for who in results.names if results.runs(who, case)]
    names.sort(key=lambda who: results.value(who, case, field), reverse=case != "latency")
    against = f"x {base}" if base else f"of {targets.IO_LIMIT:,}/s"
    head = ["peer", f"{field} median", "min", "max", "runs", against, "x bullmq", "worker"]
    rows = []
    for who in names:
        values = [line[field] for line in results.runs(who, case)]
        ratio = results.ratio(who, base, case, field) if base else median(values) / targets.IO_LIMIT
        rows.append([
            who, show(median(values)), show(min(values)), show(max(values)), str(len(values)), show(ratio, 3),
            show(results.ratio(who, "bullmq", case, field), 3), plan_text(results.last(who, case).get("plan")) or "-",
        ])  # fmt: skip
    told = [number for number in range(len(head)) if any(row[number] != "-" for row in rows)]
    return grid([head[number] for number in told], [[row[number] for number in told] for row in rows])


def scaling(results):
    """Return how throughput grows with children and workers."""
    rows = []
    for case, what in (("scaling", "no-ops"), ("scaling-io", "sleep 10 ms")):
        line = results.last(targets.OURS, case)
        for one in line["by"] if line else ():
            rate = one["per_s"] / line["by"][0]["per_s"]
            rows.append([
                what, str(one["workers"]), str(one["procs"]), str(one["threads"]), show(one["per_s"]), show(rate, 2),
                show(one["worker_cpu_us"]), show(one["redis_cpu_us"]), show(one["reads"]),
            ])  # fmt: skip
    head = [
        "tasks",
        "workers",
        "children each",
        "threads each",
        "tasks/s",
        "x the first",
        "worker CPU µs",
        "Redis CPU µs",
    ]
    return grid([*head, "reads"], rows)


def wrong(results):
    """Return what didn't work: errors, tasks that did not run, tasks that ran twice."""
    out = [f"- {line['who']} {line['case']}: {line['error'].strip().splitlines()[-1]}" for line in results.errors]
    for who in results.names:
        for case in ("drain", "io", "coroutines", "latency"):
            for line in results.runs(who, case):
                if line.get("unfinished") or line.get("twice"):
                    out.append(f"- {who} {case}: {line['unfinished']} not run, {line.get('twice', 0)} run twice")
    return "\n".join(out) or "Nothing: every task ran once."


def report(paths):
    results = Results(paths)
    parts = ["## Benchmark", setting(results)]
    if targets.OURS in " ".join(results.names):
        parts += ["### Targets (medians; ratios within a round)", targets.table(results)]
    parts += ["### Overview (medians)", overview(results)]
    parts += [part for case in VALUE for part in (f"### {case}", detail(results, case))]
    if results.last(targets.OURS, "scaling") or results.last(targets.OURS, "scaling-io"):
        parts += ["### Scaling", scaling(results)]
    return "\n\n".join([*parts, "### What went wrong", wrong(results)])
