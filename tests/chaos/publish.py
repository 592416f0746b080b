"""Put the summaries of chaos runs on the page of what is promised; what was counted is kept beside this file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.history import Event
from tests.chaos.judge import Violation
from tests.chaos.plan import Plan
from tests.chaos.report import table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
KEPT = Path(__file__).parent / "published"
_BLOCK = re.compile(r"(<!-- chaos -->\n).*?(<!-- end -->)", re.S)


def publish(plan: Plan, events: Sequence[Event], violations: Sequence[Violation]) -> None:
    """Keep the summary of a run in place of an earlier one on that database, and show all on the page."""
    KEPT.mkdir(exist_ok=True)
    lines = [("seconds", f"{plan.seconds:g}"), ("seed", plan.seed), *table(events, violations)]
    text = json.dumps([[name, str(value)] for name, value in lines], indent=0)
    (KEPT / f"{plan.database}.json").write_text(text + "\n")
    PAGE.write_text(filled(PAGE.read_text()))


def filled(page: str) -> str:
    """Return a page with its table made of what is kept."""
    runs = {path.stem: dict(json.loads(path.read_text())) for path in sorted(KEPT.glob("*.json"))}
    names = list(dict.fromkeys(name for run in runs.values() for name in run))
    rows = [["", *runs], ["---"] * (len(runs) + 1)]
    rows += [[_indented(name), *(run.get(name, "-") for run in runs.values())] for name in names]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return _BLOCK.sub(lambda found: f"{found[1]}\n{lines}\n\n{found[2]}", page)


def _indented(name: str) -> str:
    return f"… {name.strip()}" if name.startswith(" ") else name
