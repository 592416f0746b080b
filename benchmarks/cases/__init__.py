"""The cases, by name: what is measured, at which size, and with which worker."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.cases import growth, own, throughput, waiting


@dataclass(frozen=True)
class Case:
    """`measure(bench, n)` or, where a worker runs, `measure(bench, n, plan)` returns the numbers."""

    measure: Callable
    #: Tasks (seconds for the idle cases); and in a smoke run.
    n: int
    smoke: int
    #: "" (no worker), "best" (the plan that drains fastest) or "io" (the adapter's plan for tasks that wait).
    plan: str = ""
    #: Measured for variants with a producer of their own only.
    producer: bool = False
    #: Says the same each time, or takes long: measured in the first round only.
    once: bool = False
    #: `n` is multiplied by the variant's scale.
    scaled: bool = False


CASES = {
    "enqueue": Case(throughput.enqueue, 5000, 60, producer=True),
    "bulk": Case(throughput.bulk, 10_000, 60, producer=True),
    "drain": Case(throughput.drain, 10_000, 60, plan="best", scaled=True),
    "latency": Case(waiting.latency, 300, 5, plan="best"),
    "io": Case(throughput.io, 2000, 60, plan="io", scaled=True),
    "memory": Case(throughput.memory, 20_000, 60, producer=True, once=True),
    "idle": Case(waiting.idle, 10, 1, plan="best", once=True),
    # What only django_taskq is asked.
    "coroutines": Case(throughput.coroutines, 40_000, 200, plan="io"),
    "idle-queues": Case(own.idle_queues, 10, 1, plan="best", once=True),
    "latency-queues": Case(own.latency_queues, 300, 5, plan="best"),
    "memory-large": Case(own.memory_large, 2000, 20, once=True),
    "settle": Case(own.settle, 200, 3, plan="best"),
    "growth": Case(growth.growth, 100_000, 100, plan="best", once=True),
    "scaling": Case(own.scaling, 30_000, 60, plan="best", once=True),
    "scaling-io": Case(own.scaling_io, 10_000, 60, plan="io", once=True),
}


def size(name, peer, variant, settings):
    """Return how many tasks a case takes."""
    case = CASES[name]
    if name in settings.sizes:
        n = settings.sizes[name]
    else:
        n = case.smoke if settings.smoke else case.n
    if case.scaled and not settings.smoke:
        n = max(300, int(n * peer.scale_for(variant)))
    return n


def run(name, bench, n, plans):
    """Return what a case measured, or None where it says nothing about this variant."""
    case, peer = CASES[name], bench.peer
    if case.producer and bench.variant != peer.variants[0] and bench.variant not in peer.own_producer:
        return None
    if not case.plan:
        return case.measure(bench, n)
    plan = peer.io_plan_for(bench.variant) if case.plan == "io" else plans.best(bench)
    return None if plan is None else case.measure(bench, n, plan)
