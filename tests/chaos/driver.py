"""Carry out a plan: everything runs, faults come when the plan says, and then all has to end well."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos.arena import LEASE, Arena
from tests.chaos.faults import Injector, heal
from tests.chaos.history import Event, note, read
from tests.chaos.plan import Plan

#: Seconds between two looks at the workers.
TICK = 0.05


def carry_out(plan: Plan, folder: Path, commit: str | None) -> list[Event]:
    """Run a plan in a folder, and return its history."""
    folder.mkdir(parents=True, exist_ok=True)
    plan.save(folder / "plan.json")
    arena = Arena(folder, plan.seed, plan.database, commit)
    try:
        note("run", seed=plan.seed, lease=LEASE, releases=list(arena.releases), clock=arena.clock is not None)
        arena.start()
        _suffer(arena, plan)
        _end(arena)
    finally:
        arena.close()
    return read(folder / "history.jsonl")


def _suffer(arena: Arena, plan: Plan) -> None:
    """Inject the faults of a plan, each in its time, and let them go."""
    started = time.monotonic()
    injector = Injector(arena)
    order = itertools.count()
    due: list[tuple[float, int, Callable[[], object]]] = []

    def begin(fault) -> None:
        if (undo := injector.inject(fault)) is not None:
            heapq.heappush(due, (fault.at + fault.lasts, next(order), undo))

    for fault in plan.faults:
        heapq.heappush(due, (fault.at, next(order), lambda fault=fault: begin(fault)))
    while due or time.monotonic() < started + plan.seconds:
        arena.look()
        while due and started + due[0][0] <= time.monotonic():
            heapq.heappop(due)[2]()
        time.sleep(TICK)


def _end(arena: Arena) -> None:
    """Stop all faults, producers and persons, wait until nothing is left to do, and stop the workers."""
    heal(arena)
    for client in arena.clients:
        note("client exit", client=client.name, code=client.stop())
    with arena.looking_after():
        arena.manage("tests.chaos.observe", "wait")
    for worker in arena.workers:
        worker.stop()
    arena.manage("tests.chaos.observe", "read")
