"""The plain model: what every record must be by what was answered so far, and what a client may rely on.

`Facts` is what Redis was told; it goes back when Redis goes back to an older copy, and is empty after FLUSHALL.
`History` is what has happened in the world; that never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from .shim import LOG_LENGTH
from .view import View
from .wire import Violation

MINUTE, DAY = 60_000, 86_400_000
#: The set that a record of this state is in.
SETS = {"waiting": ("ready", "scheduled"), "leased": ("leased",), "dead": ("dead",), "succeeded": (), "cancelled": ()}
ENDED = ("succeeded", "cancelled")


@dataclass
class Fact:
    """One record."""

    id: str
    queue: str
    priority: int
    key: str | None
    key_ttl: int
    #: It has a row, so the relay may send it again for a day.
    row: bool
    enqueued_at: int
    #: The moment from which it can be claimed.
    due: int
    state: str = "waiting"
    token: int = 0
    child: str = ""
    attempts: int = 0
    releases: int = 0
    unknown_since: int | None = None
    lease_end: int = 0
    #: A cancel was accepted while it ran.
    cancel: bool = False
    died_at: int = 0
    deaths: int = 0
    ended_at: int = 0
    result_ttl: int = 0
    #: The largest token that a release told Redis of.
    floor: int = 0
    #: (attempt, token, child) of each ended attempt.
    log: list[tuple[int, int, str]] = field(default_factory=list)
    #: Its key's TTL has passed, and clocks that are set back don't bring it back.
    key_gone: bool = False
    #: It, or its log, may have expired.
    gone: bool = False
    log_gone: bool = False
    #: A fault took its body.
    broken: bool = False
    #: A fault took it out of its set.
    displaced: bool = False

    def sound(self) -> bool:
        return not self.broken and not self.displaced

    def forgettable_at(self) -> int:
        """Return until when a repeated enqueue must find it, once it has ended."""
        return self.ended_at + max(self.result_ttl, self.key_ttl, DAY if self.row else MINUTE)


@dataclass
class Facts:
    records: dict[str, Fact] = field(default_factory=dict)
    #: Duplicate -> the record that it was answered with, and until when that answer stands.
    aliases: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass
class History:
    #: The largest token ever granted for an id.
    tokens: dict[str, int] = field(default_factory=dict)
    #: (id, token) that may have been granted twice, since Redis went back and so did its clock.
    unsure: set[tuple[str, int]] = field(default_factory=set)
    #: (id, died_at) -> the numbers of the deaths that an admin may have seen so.
    deaths: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    #: Ids whose body was taken by a fault; what is left of them is nobody's.
    graves: set[str] = field(default_factory=set)
    #: The latest moment that the server's clock ever showed.
    latest: int = 0


class Model:
    """Knows every record, and compares them with what Redis holds."""

    def __init__(self, valid_elsewhere: Callable[[str, int], str | None]) -> None:
        self.facts = Facts()
        self.history = History()
        #: Names a worker that holds another lease of this id, in force by its own clock.
        self.valid_elsewhere = valid_elsewhere

    def copy(self) -> Facts:
        return deepcopy(self.facts)

    def of_state(self, *states: str) -> list[Fact]:
        return [fact for fact in self.facts.records.values() if fact.state in states]

    def holder(self, key: str | None, record_id: str, now: int) -> Fact | None:
        """Return the record that blocks a key for others."""
        for fact in self.facts.records.values():
            if key is None or fact.key != key or fact.id == record_id or fact.broken:
                continue
            remembered = fact.state == "succeeded" and not fact.key_gone and now < fact.ended_at + fact.key_ttl
            if remembered or fact.state in ("waiting", "leased"):
                return fact
        return None

    def claimable(self, view: View, queue: str) -> list[Fact]:
        """Return what a claim from this queue should find, best first."""
        found = [
            fact
            for fact in self.of_state("waiting")
            if fact.queue == queue
            and fact.sound()
            and (view.place(fact.id, "ready") is not None or fact.due <= view.now)
        ]
        return sorted(found, key=lambda fact: (fact.due - fact.priority * 10**13, fact.id))

    def compare(self, view: View) -> None:
        """Raise a Violation where Redis holds something else than it was told to."""
        self.history.latest = max(self.history.latest, view.now)
        self.facts.aliases = {
            duplicate: alias for duplicate, alias in self.facts.aliases.items() if alias[1] > view.now
        }
        for fact in list(self.facts.records.values()):
            fact.key_gone = fact.state == "succeeded" and (fact.key_gone or view.now >= fact.ended_at + fact.key_ttl)
            if fact.broken:
                self._compare_broken(fact, view)
            elif fact.id not in view.tasks and fact.state in ENDED:
                fact.gone = fact.gone or view.now >= fact.ended_at + fact.result_ttl
                if not fact.gone:
                    raise Violation("lost", f"{fact.id} {fact.state} went before its result's TTL")
                if view.now >= fact.forgettable_at():
                    del self.facts.records[fact.id]
            else:
                self._compare_record(fact, view)
        for found in self._differences(view):
            raise Violation(*found)

    def _compare_broken(self, fact: Fact, view: View) -> None:
        if fact.id not in view.places:
            del self.facts.records[fact.id]
        elif len(view.places[fact.id]) > 1:
            raise Violation("one place", f"{fact.id} without a body is in {view.places[fact.id]}")

    def _compare_record(self, fact: Fact, view: View) -> None:
        run, log = view.runs.get(fact.id, {}), view.logs.get(fact.id, [])
        if fact.id not in view.tasks or (fact.state != "waiting" and not run):
            raise Violation(
                "lost", f"{fact.id} is {fact.state}, but Redis has task {view.tasks.get(fact.id)}, run {run}"
            )
        self._compare_place(fact, view)
        told = fact.state, fact.attempts, fact.token, fact.cancel, fact.releases
        held = (
            run.get("state", "waiting"), int(run.get("attempts", 0)), int(run.get("token", 0)),
            "cancel_requested" in run, int(run.get("releases", 0)),
        )  # fmt: skip
        if told != held:
            raise Violation("changed", f"{fact.id} (state, attempts, token, cancel, releases) is {held}, not {told}")
        lines = [(int(a), int(t), c) for a, t, _, _, c in (line.split(" ", 5)[:5] for line in log)]
        if fact.state in ENDED:
            fact.log_gone = fact.log_gone or view.now >= fact.ended_at + fact.result_ttl
            if fact.log_gone and not lines:
                return
        if fact.state == "leased" and run["worker"] != fact.child:
            raise Violation("changed", f"{fact.id} is said to be with {run['worker']}, not {fact.child}")
        if lines != fact.log[-LOG_LENGTH:]:
            raise Violation("log", f"{fact.id}: the log tells of {lines}, not {fact.log[-LOG_LENGTH:]}")

    def _compare_place(self, fact: Fact, view: View) -> None:
        places = view.places.get(fact.id, [])
        if fact.displaced or fact.state in ENDED:
            legal = not places
        else:
            legal = len(places) == 1 and places[0][:2] in [(fact.queue, part) for part in SETS[fact.state]]
            legal = legal and places[0][2] == self._score(fact, places[0][1])
            if places and places[0][1] == "ready" and fact.due > self.history.latest:
                raise Violation("early", f"{fact.id} is ready before it is due")
        if not legal:
            raise Violation("one place", f"{fact.id} is {fact.state}, but in {places}: {fact}")

    @staticmethod
    def _score(fact: Fact, part: str) -> int:
        ready = fact.due - fact.priority * 10**13
        return {"ready": ready, "scheduled": fact.due, "leased": fact.lease_end, "dead": fact.died_at}[part]

    def _differences(self, view: View) -> Iterator[tuple[str, str]]:
        for record_id in view.tasks.keys() | view.runs.keys() | view.places.keys() | view.logs.keys():
            fact = self.facts.records.get(record_id)
            known = fact or record_id in self.facts.aliases or record_id in self.history.graves
            if not known:
                yield "stray", f"Redis holds {record_id}, of which nobody was told"
            for kind, held in (("task", view.tasks), ("run", view.runs), ("log", view.logs)):
                if record_id in held and not (fact and fact.broken):
                    ended = fact is None or fact.state in ENDED
                    if ended != (view.ttl(kind, record_id) is not None):
                        yield "ttl", f"{kind}:{record_id} of {fact} has TTL {view.ttl(kind, record_id)}"
        for child in view.journals:
            if view.ttl("claim", child) is None:
                yield "ttl", f"the journal of {child} has no TTL"
        yield from self._key_differences(view)

    def _key_differences(self, view: View) -> Iterator[tuple[str, str]]:
        for fact in self.facts.records.values():
            live = fact.state in ("waiting", "leased")
            if fact.key is None or fact.broken:
                continue
            if live and view.keys.get(fact.key) != fact.id:
                yield "key", f"{fact.id} is {fact.state}, but its key {fact.key} names {view.keys.get(fact.key)}"
            if not live and fact.state != "succeeded" and view.keys.get(fact.key) == fact.id:
                yield "key", f"{fact.id} is {fact.state}, but still holds its key {fact.key}"
        for key, record_id in view.keys.items():
            fact = self.facts.records.get(record_id)
            if record_id in self.history.graves:
                continue
            if (view.ttl("idem", key) is None) != (fact is not None and fact.state in ("waiting", "leased")):
                yield "ttl", f"the key {key} of {fact} has TTL {view.ttl('idem', key)}"
