"""Chaos with a checked history: ``python -m tests.chaos --seconds 60 --database postgresql``.

Producers and workers of two releases run while everything around them fails, as a seeded plan says. Then the history
is judged. A history with faults of ours is kept; exits 1 then.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos import plan as plans
from tests.chaos.driver import carry_out
from tests.chaos.history import Event, read
from tests.chaos.judge import Violation, judge
from tests.chaos.plan import Plan
from tests.chaos.publish import publish
from tests.chaos.report import table
from tests.chaos.shrink import shrink

ROOT = Path(__file__).resolve().parents[2]
#: Violations that are printed.
SHOWN = 20


def main() -> int:
    options = _options()
    if options.check:
        events = read(options.check)
        return _tell(events, judge(events))
    plan = _plan(options)
    print(f"seed {plan.seed}: {plan.seconds:g} s, database {plan.database}, {len(plan.faults)} faults", flush=True)
    folder = options.keep or ROOT / "build" / "chaos" / f"{plan.database}-{plan.seed}-{int(time.time())}"
    events = _run(plan, folder, options.older)
    started = next(event for event in events if event["what"] == "run")
    print(f"releases: {', '.join(started['releases'])}")
    if not started["clock"]:
        print("clocks are not shifted: libfaketime isn't installed")
    violations = judge(events)
    code = _tell(events, violations)
    if options.publish:
        publish(plan, events, violations)
    if code == 0 and not options.keep:
        shutil.rmtree(folder)
        return 0
    print(f"kept: {folder}; judge it again with CHAOS_ARGS='--check {folder}/history.jsonl'")
    if violations and options.shrink:
        _shrink(plan, violations, folder, options.older)
    return code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("make chaos CHAOS_ARGS=...", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="draws the plan and the enqueues")
    parser.add_argument("--database", choices=["none", "sqlite", "postgresql", "mariadb"], default="none")
    parser.add_argument("--only", type=_names, help="these faults, separated by commas")
    parser.add_argument("--without", type=_names, default=[], help=f"not these; all are {', '.join(plans.KINDS)}")
    parser.add_argument("--older", metavar="COMMIT", help="the older release of the workers' code")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="carry out this plan again")
    parser.add_argument("--check", type=Path, metavar="FILE", help="only judge this history")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the history there, however it ends")
    parser.add_argument("--publish", action="store_true", help="show the summary on the page of what is promised")
    parser.add_argument("--shrink", action="store_true", help="after a failure, look for fewer faults that fail too")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if unknown := set(names) - set(plans.KINDS):
        raise argparse.ArgumentTypeError(f"no such fault: {', '.join(sorted(unknown))}")
    return names


def _plan(options: argparse.Namespace) -> Plan:
    if options.plan:
        return Plan.load(options.plan)
    kinds = options.only or plans.possible(options.database)
    kinds = [kind for kind in kinds if kind not in options.without]
    return plans.make(options.seed, options.seconds, options.database, kinds)


def _run(plan: Plan, folder: Path, commit: str | None) -> list[Event]:
    """Carry out a plan where every server user can write, and keep what is worth keeping."""
    with tempfile.TemporaryDirectory(prefix="taskq-chaos-") as scratch:
        try:
            return carry_out(plan, Path(scratch), commit)
        finally:
            folder.mkdir(parents=True, exist_ok=True)
            for path in (*Path(scratch).glob("*.json*"), *Path(scratch).glob("*.log")):
                shutil.copy(path, folder)


def _tell(events: Sequence[Event], violations: Sequence[Violation]) -> int:
    for name, value in table(events, violations):
        print(f"{name:52}{value!s:>10}")
    for violation in violations[:SHOWN]:
        print("VIOLATION", violation)
    if len(violations) > SHOWN:
        print(f"... and {len(violations) - SHOWN} more")
    print("FAILED" if violations else "nothing lost, nothing doubled")
    return 1 if violations else 0


def _shrink(plan: Plan, violations: Sequence[Violation], folder: Path, commit: str | None) -> None:
    """Look for a smaller plan with a violation of the same kind, and keep it."""
    points = {violation.point for violation in violations}

    def fails(faults: Sequence[plans.Fault]) -> bool:
        smaller = Plan(plan.seed, plan.seconds, plan.database, faults)
        with tempfile.TemporaryDirectory(prefix="taskq-chaos-") as scratch:
            found = {violation.point for violation in judge(carry_out(smaller, Path(scratch), commit))}
        print(f"{len(faults)} faults: {', '.join(sorted(found)) or 'fine'}", flush=True)
        return bool(found & points)

    smallest = shrink(plan.faults, fails)
    Plan(plan.seed, plan.seconds, plan.database, smallest).save(folder / "smallest.json")
    print(f"{len(smallest)} faults are left: CHAOS_ARGS='--plan {folder}/smallest.json'")


if __name__ == "__main__":
    # What it started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    sys.exit(main())
