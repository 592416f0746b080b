"""Count what a history holds, for people."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.chaos.history import Event
from tests.chaos.judge import History, Violation

Table = list[tuple[str, object]]


def table(events: Sequence[Event], violations: Sequence[Violation]) -> Table:
    """Return the lines of the summary."""
    history = History(events)
    answers = Counter(answer["what"] for answer in history.answers.values())
    states = Counter(min(task.last) for task in history.tasks.values() if task.has_ended)
    acts = Counter(f"{act['verb']} {act['word']}" for task in history.tasks.values() for act in task.acts)
    points = Counter(violation.point for violation in violations)
    lines: Table = [("faults", len(history.others["fault"]))]
    lines += [(f"  {kind}", count) for kind, count in sorted(_kinds(history).items())]
    lines += [("enqueues", len(history.intents))]
    lines += [(f"  {what}", answers[what]) for what in ("accepted", "rolled back", "refused", "unknown")]
    lines += [("  never answered", len(history.intents) - answers.total())]
    lines += [("tasks that ended", states.total())]
    lines += [(f"  {state}", count) for state, count in sorted(states.items())]
    lines += [("acts of a person", acts.total())]
    lines += [(f"  {act}", count) for act, count in sorted(acts.items())]
    lines += [
        ("attempts begun", sum(len(task.begins) for task in history.tasks.values())),
        ("lost", points["lost"]),
        ("forgotten by Redis with its data, without a row", _forgotten(history)),
        ("atomic effects", sum(len(task.effect_rows) for task in history.tasks.values())),
        ("  doubled or missing", points["atomic"]),
        ("tasks with a repeated external effect", _repeated(history)),
        ("other violations", len(violations) - points["lost"] - points["atomic"]),
    ]
    lines += [(f"seconds until {what}", _spread(seconds)) for what, seconds in recoveries(history).items()]
    lines += [("seconds to drain afterwards", f"{end['at'] - end['since']:.1f}") for end in history.others["drained"]]
    return lines


def _kinds(history: History) -> Counter[str]:
    return Counter(fault["kind"] for fault in history.others["fault"])


def _forgotten(history: History) -> int:
    """Count the tasks that were accepted and have no end, where that is excused."""
    return sum(
        not history.tasks[record_id].has_ended
        for call, answer in history.answers.items()
        if answer["what"] == "accepted" and history.losses
        for record_id in history.ids[call]
        if not any(push["word"] == "TAKEN" for push in history.tasks[record_id].pushes)
    )


def _repeated(history: History) -> int:
    """Count the tasks, but those that fail by design, with more than one effect outside the database."""
    return sum(
        len(history.tasks[record_id].effects) > 1
        for call, intent in history.intents.items()
        if "fail" not in intent["task"]
        for record_id in history.ids[call]
    )


def recoveries(history: History) -> dict[str, list[float]]:
    """Measure how long it took until work went on after a fault: each task, and each worker, counts."""
    found: dict[str, list[float]] = {
        "a task of a killed child runs again": [],
        "a task of a killed worker runs again": [],
        "a worker claims after a Redis restart": [],
    }
    running = defaultdict(list)
    for task in history.tasks.values():
        for begin in task.begins:
            running[begin["pid"]].append((begin, task))
    claims = defaultdict(list)
    for task in history.tasks.values():
        for claim in task.claims:
            claims[claim["who"]].append(claim["at"])
    for fault in history.others["fault"]:
        if fault["kind"] in ("kill child", "kill worker"):
            name = f"a task of a killed {fault['kind'].removeprefix('kill ')} runs again"
            for pid in fault.get("pids", ()):
                found[name] += _resumed(running[pid], fault["since"])
        elif fault["kind"].startswith("restart Redis"):
            firsts = (min((at for at in some if at > fault["at"]), default=None) for some in claims.values())
            found["a worker claims after a Redis restart"] += [at - fault["at"] for at in firsts if at is not None]
    return found


def _resumed(begun: list, killed_at: float) -> Iterator[float]:
    """Yield the seconds until each task that was running then began anew."""
    for begin, task in begun:
        ended = any(end["pid"] == begin["pid"] and end["token"] == begin["token"] for end in task.ends)
        if not ended and begin["at"] < killed_at:
            later = [one["at"] for one in task.begins if one["at"] > killed_at]
            if later:
                yield min(later) - killed_at


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    return f"median {statistics.median(seconds):.2f}, most {max(seconds):.2f} ({len(seconds)} times)"
