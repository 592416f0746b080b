"""Judge a history: name everything in it that must not be. It is a function of the events alone.

The points are those of the casebook: accepted work is never lost; each task ends once; a stale worker changes nothing;
tokens grow; attempts stay within their maximum; no key leaks; workers go on. To these come: what was rolled back or
refused never runs, an atomic task's effect is there exactly once, and rows and records agree.

A person may cancel, discard or retry: then a task ends so, or once more, and what was ended stays ended.
Redis may be told to forget (a fault with `loses`). What it forgot is excused where it was its only keeper, and its
counts start anew; tasks with a row in the caller's transaction are never excused.
"""

from __future__ import annotations

import itertools
import math
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.history import Event

ENDED = ("succeeded", "dead", "cancelled")
#: States of a row after which nothing follows by itself.
CLOSED = (*ENDED, "duplicate")
#: What a settle is called that ends a task, and the state that it leads to.
ENDINGS = {"complete": "succeeded", "bury": "dead"}
HAPPENED = ("DONE", "ALREADY")


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be."""

    point: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.point}: {self.subject}: {self.text}"


class Task:
    """All that a history says about one id."""

    def __init__(self, record_id: str, losses: Sequence[tuple[float, float]]) -> None:
        self.id = record_id
        #: Those of its history, see there.
        self.losses = losses
        self.claims: list[Event] = []
        self.settles: list[Event] = []
        self.begins: list[Event] = []
        self.ends: list[Event] = []
        self.pushes: list[Event] = []
        self.effects: list[Event] = []
        self.effect_rows: list[Event] = []
        #: What persons did to it; without a word it isn't known whether they did.
        self.acts: list[Event] = []
        self.record: Event | None = None
        self.row: Event | None = None

    @property
    def endings(self) -> list[Event]:
        """The settles that ended it, as far as they were answered."""
        return [one for one in self.settles if one["script"] in ENDINGS and one["word"] in HAPPENED]

    @property
    def first_claims(self) -> list[Event]:
        """The first claim of each token, in their order: a child that asks again gets the same lease again."""
        firsts = {one["token"]: one for one in sorted(self.claims, key=lambda one: -one["sent"])}
        return sorted(firsts.values(), key=lambda one: one["sent"])

    @property
    def last(self) -> set[str]:
        """What it is in the end, by record and row; where neither is left, how it ended before."""
        kept = {self.record["state"]} if self.record else set()
        if self.row and not self.is_row_ahead:
            kept.add(self.row["status"])
        return kept or {ENDINGS[one["script"]] for one in self.endings}

    @property
    def is_row_ahead(self) -> bool:
        """Tell whether a row that nobody repairs says what a person wanted, and Redis knows nothing of that."""
        is_plain = self.row is not None and self.row["status"] == "waiting" and not self.row["outbox"]
        return is_plain and any(act["verb"] == "retry" and self.is_unknown(act) for act in self.acts)

    def is_unknown(self, act: Event) -> bool:
        """Tell whether Redis may know nothing of what a person did."""
        return act["word"] is None or (act["word"] == "DONE" and any(end >= act["sent"] for _, end in self.losses))

    @property
    def has_ended(self) -> bool:
        return bool(self.last) and self.last <= set(CLOSED)

    def is_reopened_between(self, since: float, until: float) -> bool:
        """Tell whether a person retried it, or may have, at a time between two moments."""
        return any(
            act["verb"] == "retry" and act["word"] in ("DONE", None) and act["sent"] <= until and act["at"] >= since
            for act in self.acts
        )

    @property
    def may_be_cancelled(self) -> bool:
        return any(act["verb"] in ("cancel", "discard") for act in self.acts)

    @property
    def was_seen(self) -> bool:
        """Whether Redis ever had it."""
        return bool(self.claims or self.begins or self.record or self.effects or self.effect_rows)


#: Where the events that name an id go.
LISTS = {
    "claim": "claims",
    "settle": "settles",
    "begin": "begins",
    "end": "ends",
    "push": "pushes",
    "effect": "effects",
    "effect row": "effect_rows",
    "person": "acts",
}


class History:
    """The events, sorted by what they are about."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        #: When Redis forgot something: from when on, and when it was over.
        self.losses: list[tuple[float, float]] = []
        self.tasks: dict[str, Task] = {}
        #: The intent and the answer to each call, its ids, and the calls that were committed with an order.
        self.intents: dict[str, Event] = {}
        self.answers: dict[str, Event] = {}
        self.ids: dict[str, set[str]] = defaultdict(set)
        self.orders: set[str] = set()
        self.others: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        what = event["what"]
        if "id" in event:
            task = self.tasks.setdefault(event["id"], Task(event["id"], self.losses))
            if what == "person" and task.acts and task.acts[-1]["sent"] == event["sent"]:
                task.acts[-1] = event  # how it went, in place of that it was begun
            elif what in LISTS:
                getattr(task, LISTS[what]).append(event)
            elif what in ("record", "row"):
                setattr(task, what, event)
        if "call" in event and "id" in event:
            self.ids[event["call"]].add(event["id"])
        for record_id in event.get("ids", ()):
            self.ids[event["call"]].add(record_id)
            self.tasks.setdefault(record_id, Task(record_id, self.losses))
        if what == "intent":
            self.intents[event["call"]] = event
        elif what in ("accepted", "unknown", "refused", "rolled back"):
            self.answers[event["call"]] = event
        elif what == "order":
            self.orders.add(event["call"])
        elif what == "fault" and event.get("loses"):
            self.losses.append((event["since"], event["at"]))
        if "id" not in event:
            self.others[what].append(event)

    def forgot_between(self, since: float, until: float) -> bool:
        """Tell whether Redis forgot something at a time between two moments."""
        return any(start <= until and end >= since for start, end in self.losses)

    def may_disagree(self, task: Task) -> bool:
        """Tell whether Redis took back the end of a task, and a person cancelled it where only the row knew of it."""
        return bool(self.losses) and task.may_be_cancelled and bool(task.record) and task.last <= set(CLOSED)


Check = Callable[[History], Iterator[Violation]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def judge(events: Sequence[Event]) -> list[Violation]:
    """Return all that is wrong in a history."""
    history = History(events)
    return [violation for one in CHECKS for violation in one(history)]


@check
def nothing_is_lost(history: History) -> Iterator[Violation]:
    """Each accepted task has ended; also one that nobody heard was accepted, but that was seen."""
    for call, intent in history.intents.items():
        answer = history.answers.get(call, {"what": "unknown"})["what"]
        kept = intent["outbox"] and (call in history.orders if intent["ordered"] else answer == "accepted")
        ids = history.ids[call]
        if kept and not ids:
            yield Violation("lost", call, f"{intent['task']} was committed, and there is nothing of it")
        for record_id in ids:
            task = history.tasks[record_id]
            is_due = kept or answer == "accepted" or task.was_seen
            if not is_due or task.has_ended or (_is_duplicate(task) and not intent["outbox"]):
                continue
            if not kept and history.forgot_between(intent["at"], math.inf):
                continue
            yield Violation("lost", record_id, f"{intent['task']} of {call} ({answer}) has not ended")


def _is_duplicate(task: Task) -> bool:
    return any(push["word"] == "TAKEN" for push in task.pushes)


@check
def everything_ends_once(history: History) -> Iterator[Violation]:
    """A task has one ending, in one state; after that nobody gets it."""
    for task in history.tasks.values():
        if len(task.last) > 1 and not history.may_disagree(task):
            yield Violation("ended twice", task.id, f"it is {', '.join(sorted(task.last))}")
        completed = [one["at"] for one in task.endings if one["script"] == "complete"]
        if completed and "succeeded" not in task.last and not history.forgot_between(min(completed), math.inf):
            yield Violation("ended twice", task.id, f"it succeeded, and is {', '.join(sorted(task.last))}")
        endings = {(one["token"], one["script"]): one for one in reversed(task.endings)}
        since = min((one["sent"] for one in endings.values()), default=0)
        until = max((one["at"] for one in endings.values()), default=0)
        excused = history.forgot_between(since, until) or task.is_reopened_between(since, until)
        if len(endings) > 1 and not excused:
            yield Violation("ended twice", task.id, f"under the tokens and by the scripts {sorted(endings)}")


@check
def what_has_ended_stays_so(history: History) -> Iterator[Violation]:
    """What a worker or a person ended is claimed by nobody, unless it was retried.

    After a loss it may be claimed again; if its row says that it succeeded or was cancelled, it doesn't begin.
    """
    for task in history.tasks.values():
        has_row = task.row is not None and task.row["outbox"]
        cancels = [act for act in task.acts if act["verb"] != "retry" and act["word"] in ("DONE", "ASKED")]
        for end, claim in itertools.product((*task.endings, *cancels), task.first_claims):
            if claim["sent"] < end["at"] or task.is_reopened_between(end["sent"], claim["at"]):
                continue
            if end["word"] == "ASKED" and claim is task.first_claims[0]:
                continue  # It was leased when it was asked to end, and whoever claimed it asks again for the answer.
            if not history.forgot_between(end["sent"], claim["at"]):
                yield Violation("ended twice", task.id, f"token {claim['token']} was claimed after its end")
            elif (
                has_row
                and end.get("script") != "bury"
                and any(begin["token"] == claim["token"] for begin in task.begins)
            ):
                yield Violation("ended twice", task.id, f"it has a row, and began under {claim['token']} after its end")


@check
def records_tell_one_ending(history: History) -> Iterator[Violation]:
    """The log of a record holds one success if it succeeded, and none else; its last token is the record's."""
    for task in history.tasks.values():
        if (record := task.record) is None:
            continue
        successes = [attempt for attempt in record["history"] if attempt[2] is None]
        if len(successes) != (record["state"] == "succeeded"):
            yield Violation("ended twice", task.id, f"{record['state']} with {len(successes)} successes in its log")
        if record["history"] and record["state"] in ENDINGS.values() and record["history"][-1][1] != record["token"]:
            yield Violation("stale", task.id, f"ended under {record['history'][-1][1]}, not under {record['token']}")


@check
def a_stale_worker_changes_nothing(history: History) -> Iterator[Violation]:
    """No settle is done under a token after a claim with a larger one was answered."""
    for task in history.tasks.values():
        for settle in task.settles:
            newer = [
                claim
                for claim in task.claims
                if claim["token"] > settle["token"]
                and claim["at"] < settle["sent"]
                and not history.forgot_between(claim["sent"], settle["at"])
            ]
            if settle["word"] == "DONE" and newer:
                text = f"{settle['script']} under {settle['token']} after {newer[0]['token']} was claimed"
                yield Violation("stale", task.id, text)


@check
def tokens_grow(history: History) -> Iterator[Violation]:
    """A claim gets a larger token than all before it; the same only for the same child, which asked again."""
    for task in history.tasks.values():
        owners: dict[int, set[str]] = defaultdict(set)
        largest = 0
        answered: list[Event] = []
        for claim in sorted(task.claims, key=lambda one: one["sent"]):
            owners[claim["token"]].add(claim["child"])
            earlier = [one for one in answered if one["at"] < claim["sent"] and one["token"] >= claim["token"]]
            if any((one["token"], one["child"]) != (claim["token"], claim["child"]) for one in earlier):
                yield Violation("tokens", task.id, f"{claim['token']} was claimed after {largest}")
            largest = max(largest, claim["token"])
            answered.append(claim)
        for token, children in owners.items():
            if len(children) > 1:
                yield Violation("tokens", task.id, f"{token} belongs to {', '.join(sorted(children))}")
        told = [attempt[1] for attempt in task.record["history"]] if task.record else []
        if told != sorted(set(told)):
            yield Violation("tokens", task.id, f"its log has {told}")


@check
def one_process_runs_a_token(history: History) -> Iterator[Violation]:
    """A run under a token that another process has begun too has been ended before: it says nothing any more."""
    for task in history.tasks.values():
        for begin in task.begins:
            earlier = {one["pid"] for one in task.begins if one["token"] == begin["token"] and one["at"] < begin["at"]}
            for event in (*task.effects, *task.ends):
                says_more = event["token"] == begin["token"] and event["at"] > begin["at"]
                if says_more and event["pid"] in earlier - {begin["pid"]}:
                    yield Violation("one place", task.id, f"two processes ran it under {begin['token']}")


@check
def attempts_stay_within_their_maximum(history: History) -> Iterator[Violation]:
    """No attempt has a number beyond the maximum, nor has the record.

    A retry that Redis forgot, and of which a row knows, lets the attempts go on that Redis counts.
    """
    for task in history.tasks.values():
        if (record := task.record) is None:
            continue
        most = record["most"] * (1 + sum(task.is_unknown(act) for act in task.acts if act["verb"] == "retry"))
        numbers = [claim["attempt"] for claim in task.claims] + [record["attempts"]]
        numbers += [attempt[0] for attempt in record["history"]]
        if max(numbers) > most:
            yield Violation("attempts", task.id, f"attempt {max(numbers)} of {most}")


@check
def tasks_end_as_they_must(history: History) -> Iterator[Violation]:
    """What always fails is dead, and all else succeeds with its own call as the result."""
    for call, intent in history.intents.items():
        for task in (history.tasks[record_id] for record_id in history.ids[call]):
            due = "dead" if intent["task"].endswith("fail") else "succeeded"
            due = {due, "duplicate", *(["cancelled"] if task.may_be_cancelled else [])}
            if task.has_ended and (wrong := task.last - due):
                yield Violation("ended wrongly", task.id, f"{intent['task']} is {wrong}; {_last_error(task)}")
            for kept in filter(None, (task.record, task.row)):
                is_done = "succeeded" in (kept.get("state"), kept.get("status"))
                if is_done and kept["result"] != kept["call"]:
                    yield Violation("ended wrongly", task.id, f"its {kept['what']} has the result {kept['result']!r}")


def _last_error(task: Task) -> str:
    return f"its log: {task.record['history'][-3:]}" if task.record else "no record"


@check
def what_was_not_accepted_never_runs(history: History) -> Iterator[Violation]:
    """What was refused or rolled back was never seen, nor what lacks the order it was to be committed with."""
    for call, intent in history.intents.items():
        answer = history.answers.get(call, {"what": "unknown"})
        ids: Iterable[str] = ()
        if intent["ordered"]:
            ids = () if call in history.orders else history.ids[call]
        elif answer["what"] == "refused":
            ids = answer["ids"]
        for task in (history.tasks[record_id] for record_id in ids):
            if task.was_seen or task.pushes or task.row:
                yield Violation(
                    "not accepted", task.id, f"{intent['task']} of {call} ({answer['what']}) was seen all the same"
                )


@check
def atomic_effects_are_there_once(history: History) -> Iterator[Violation]:
    """A succeeded atomic task has its effect once, under the token of its row; one that isn't has none."""
    atomic = {call for call, intent in history.intents.items() if intent.get("atomic")}
    for call in atomic:
        for task in (history.tasks[record_id] for record_id in history.ids[call]):
            found = [effect["token"] for effect in task.effect_rows]
            due = int(task.row is not None and task.row["status"] == "succeeded")
            if len(found) != due:
                status = task.row and task.row["status"]
                yield Violation("atomic", task.id, f"{len(found)} effects, under {found}; its row is {status}")
            elif due and task.row and found != [task.row["token"]]:
                yield Violation("atomic", task.id, f"its effect is under {found}, its row under {task.row['token']}")


@check
def rows_and_records_agree(history: History) -> Iterator[Violation]:
    """Where there are both, they say the same; with rows kept, each ended record has one."""
    has_rows = any(task.row for task in history.tasks.values())
    for task in history.tasks.values():
        if task.record is None or task.is_row_ahead or history.may_disagree(task):
            continue
        if task.row is None:
            if has_rows and task.record["state"] != "cancelled":
                yield Violation("rows", task.id, f"{task.record['state']}, without a row")
            continue
        pairs = [(task.row["status"], task.record["state"]), (task.row["result"], task.record["result"])]
        if not history.losses and task.record["state"] != "cancelled":
            pairs += [(task.row[name], task.record[name]) for name in ("token", "attempts")]
        if differing := [pair for pair in pairs if pair[0] != pair[1]]:
            yield Violation("rows", task.id, f"the row differs from Redis: {differing}")


@check
def no_key_leaks(history: History) -> Iterator[Violation]:
    for leak in history.others["leak"]:
        yield Violation("leak", "keys", leak["text"])


def _could_not_start(history: History, end: Event) -> bool:
    return (end["code"], end["served"]) == (1, False) and any(
        fault["kind"].endswith("database") and fault["since"] < end["at"] and fault["at"] > end["began"]
        for fault in history.others["fault"]
    )


@check
def workers_go_on(history: History) -> Iterator[Violation]:
    """No worker ends by itself; told to, it says that it is drained or was forced; and the work gets done.

    Django's own checks may ask a database, so that no command starts without it; the worker says so and exits 1.
    """
    for end in history.others["exit"]:
        if _could_not_start(history, end):
            continue
        if not end["ordered"]:
            yield Violation("worker", end["worker"], f"it ended by itself with {end['code']}")
        elif end["code"] not in (0, 5) and end["code"] >= 0:
            yield Violation("worker", end["worker"], f"it was told to end, and ended with {end['code']}")
    for end in history.others["client exit"]:
        if end["code"] not in (0, -signal.SIGTERM):
            yield Violation("worker", end["client"], f"it ended with {end['code']}")
    for left in history.others["not drained"]:
        yield Violation("worker", "queue", f"{left['count']} tasks were left, for instance {left['left'][:5]}")
    if not history.others["drained"] and not history.others["not drained"]:
        yield Violation("worker", "queue", "the run came to no end")
