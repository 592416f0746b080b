"""One run: a server, everyone who talks to it, what befalls them, and what must hold after each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import redis

from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable

from .actors import Admin, Child, Holder, Producer, Reaper, Rules, Supervisor
from .judge import Judge
from .model import Fact, Facts, Model
from .shim import EPOCH, Clock
from .themes import HOUR, WAIT, Theme
from .view import COPY, RESTORE, TICK
from .wire import Violation, Wire

T = TypeVar("T")
SUBSCRIPTIONS = (("q0", "q1"), ("q1", "q0"), ("q0",))


class Dice:
    """Makes many small choices of one number; zero chooses the first each time."""

    number = 0

    def throw(self, number: int) -> None:
        """Take a new number. Hypothesis prefers small ones, whose later choices would all be the first."""
        self.number = number * 0x9E3779B97F4A7C15 % 2**64 >> 16

    def pick(self, count: int) -> int:
        self.number, choice = divmod(self.number, count)
        return choice

    def choose(self, options: Sequence[T]) -> T:
        return options[self.pick(len(options))]


@dataclass
class Copy:
    """An older copy of Redis, with what the model knew then."""

    payload: list[bytes]
    facts: Facts


class World:
    queues = ("q0", "q1")

    def __init__(self, server: redis.Redis, wire: Wire, clock: Clock, rules: Rules, theme: Theme) -> None:
        self.server, self.wire, self.clock, self.rules, self.theme = server, wire, clock, rules, theme
        self.dice = Dice()
        self.clock.now = 0
        self.server.flushall()
        wire.load_scripts()
        self.tick(EPOCH)
        self.broker = Broker(wire, "t", wire)
        self.model = Model(self.valid_elsewhere)
        self.judge = wire.listener = Judge(self.model)
        wire.late.clear()
        wire.look()
        #: The token that the row of a record has seen.
        self.rows_tokens: dict[str, int] = {}
        self.births = 0
        self.children: list[Child | None] = [self.child(number) for number in range(3)]
        self.supervisors: list[Supervisor] = []
        #: Dead children whose last claim nobody fenced off.
        self.unfenced: set[str] = set()
        #: Leases of which Redis tells its holders anew, since it went back.
        self.strays: set[tuple[str, int]] = set()
        #: Queue -> when the waits of all others have ended that a vanished worker might have woken.
        self.excused: dict[str, int] = {}
        self.unwatched: dict[str, int] = {}
        self.reaper, self.admin, self.producer = Reaper(self), Admin(self), Producer(self)
        self.copies: list[Copy] = []
        self.story: list[str] = []

    def child(self, number: int) -> Child:
        self.births += 1
        return Child(self, f"w{number}.{self.births}", SUBSCRIPTIONS[number], slots=1 + number % 2)

    def send(self, request: Callable[[], T]) -> T | None:
        """Make a request; None when no answer came."""
        try:
            return request()
        except BrokerUnavailable:
            return None

    def holders(self) -> list[Holder]:
        return [*(child for child in self.children if child is not None), *self.supervisors]

    def valid_elsewhere(self, record_id: str, token: int) -> str | None:
        for holder in self.holders():
            for (held_id, held_token), held in holder.board.items():
                valid = held.settlement is None and not held.excused and held.deadline > self.clock.now
                unsure = (held_id, held_token) in self.model.history.unsure
                if held_id == record_id and held_token != token and valid and not unsure:
                    return f"{holder.name} (under {held_token} until {held.deadline}, now {self.clock.now})"
        return None

    # --- time

    def tick(self, now: int) -> None:
        self.server.eval(TICK, 0, now)
        self.now = now

    def advance(self, ms: int) -> None:
        self.clock.now += ms
        self.tick(self.now + ms)
        self.model.compare(self.wire.look())
        self.producer.forget()

    def set_back(self, ms: int) -> None:
        """Set the server's clock back; nobody else's."""
        self.tick(self.now - ms)
        self.model.compare(self.wire.look())
        if ms > 23 * HOUR:
            self.excuse()

    # --- what befalls workers

    def stopped(self, child: Child) -> None:
        """A child without work has ended; what it watched is seen again when the others' waits end."""
        self.children[self.children.index(child)] = None
        if child.watches:
            self.unwatched.update(dict.fromkeys(child.queues, self.clock.now + WAIT))

    def crash(self) -> None:
        """Kill a child; its supervisor sees that, and another child takes its place."""
        number = self.dice.pick(len(self.children))
        child = self.children[number]
        if child is not None and child.nonce:
            self.supervisors.append(Supervisor(self, child))
            if not self.rules.fence_dead_children:
                self.excuse_waits(child.queues)
        self.start(number)

    def start(self, number: int) -> None:
        self.children[number] = child = self.child(number)
        child.go_on()

    def burn(self) -> None:
        """Lose a whole machine: a child with its supervisor, and everything that they knew."""
        number = self.dice.pick(len(self.children))
        child = self.children[number]
        names = {child.name} if child is not None else set()
        names |= {supervisor.name for supervisor in self.supervisors}
        self.unfenced |= names
        self.supervisors.clear()
        self.children[number] = None
        self.excuse_waits(self.queues)

    def excuse_waits(self, queues: Sequence[str]) -> None:
        self.excused.update(dict.fromkeys(queues, self.clock.now + WAIT))

    # --- what befalls Redis

    def excuse(self, record_id: str | None = None) -> None:
        """Leases, or one, are not known to Redis as they were: others may get the same records."""
        for holder in self.holders():
            for held in holder.board.values():
                held.excused = held.excused or record_id in (None, held.lease.id)

    def late_request_arrives(self) -> None:
        self.wire.deliver(self.dice.pick(len(self.wire.late)))

    def forget_scripts(self) -> None:
        self.server.script_flush()
        self.wire.prepare()

    def flush_all(self) -> None:
        self.server.flushall()
        self.tick(self.now)
        self.model.facts = Facts()
        self.wire.late = [late for late in self.wire.late if self.wire.names[late.command[1]] != "claim"]
        self.excuse()
        self.model.compare(self.wire.look())

    def copy(self) -> None:
        self.copies.append(Copy(self.server.eval(COPY, 0), self.model.copy()))

    def restore(self) -> None:
        """Restart Redis with an older copy: no connection lives on, so everyone claims before waiting again."""
        copy = self.dice.choose(self.copies)
        self.server.eval(RESTORE, 0, *copy.payload)
        self.model.facts = copy.facts
        copy.facts = self.model.copy()
        self.forget_scripts()
        self.wire.late.clear()
        self.excuse()
        for child in self.children:
            if child is not None:
                child.blocked = False
        self.tick(self.now + 1_000)
        self.clock.now += 1_000
        self.model.compare(self.wire.look())
        boards = {holder.name: holder.board for holder in self.holders()}
        for fact in self.model.of_state("leased"):
            if (fact.id, fact.token) not in boards.get(fact.child, ()):
                self.strays.add((fact.id, fact.token))

    def undelivered(self) -> list[Fact]:
        return [fact for fact in self.model.of_state("waiting", "leased", "dead") if fact.sound()]

    def spoil(self) -> None:
        """Take the body of an undelivered record, or put something else in its place."""
        fact = self.dice.choose(self.undelivered())
        self.server.delete(f"{{t}}:task:{fact.id}")
        if self.dice.pick(2):
            self.server.rpush(f"{{t}}:task:{fact.id}", "x")
        fact.broken = True
        self.model.history.graves.add(fact.id)
        self.wire.look()

    def displace(self) -> None:
        """Take an undelivered record out of its set."""
        fact = self.dice.choose(self.undelivered())
        for queue, part, _ in self.wire.view.places[fact.id]:
            self.server.zrem(f"{{t}}:queue:{queue}:{part}", fact.id)
        fact.displaced = True
        self.excuse(fact.id)
        self.strays.add((fact.id, fact.token))
        self.wire.look()

    def can(self, trouble: str) -> bool:
        if trouble.startswith("restore"):
            return bool(self.copies)
        return bool(self.undelivered()) or trouble not in ("spoil", "displace")

    def day_passes(self) -> None:
        """Leave everything off for longer than journals live."""
        for number in range(len(self.children)):
            self.dice.number = number
            self.burn()
        self.wire.late.clear()
        self.advance(25 * HOUR)

    def restore_behind(self) -> None:
        """Restart with an older copy on a machine whose clock is behind."""
        self.restore()
        self.set_back(20_000)

    def clock_back(self) -> None:
        self.set_back(self.dice.choose(self.theme.setbacks))

    # --- what must hold between requests

    def check(self) -> None:
        self._check_leases()
        for queue in self.queues:
            self._check_wake(queue)

    def _check_leases(self) -> None:
        """Every lease is known to the child that it was given to."""
        holders = {holder.name: holder for holder in self.holders()}
        for fact in self.model.of_state("leased"):
            key, holder = (fact.id, fact.token), holders.get(fact.child)
            if not fact.sound() or key in self.strays or fact.child in self.unfenced:
                continue
            if holder is not None and holder.claiming():
                continue
            if holder is None or key not in holder.board:
                raise Violation("unknown lease", f"{fact.child} doesn't know that it holds {fact}")

    def _check_wake(self, queue: str) -> None:
        """No free worker sleeps while there is work, or past the time at which some is due."""
        view, now = self.wire.view, self.clock.now
        served = [child for child in self.children if child is not None and queue in child.queues]
        sleepers = [child for child in served if child.blocked and not child.awake()]
        fencing = any(one.fence and queue in one.queues for one in self.supervisors)
        if queue in view.wake or not sleepers or fencing or any(child.awake() for child in served):
            return
        if self.excused.get(queue, 0) > now:
            return
        watched = self.unwatched.get(queue, 0) <= now
        for fact in self.model.claimable(view, queue):
            if watched or view.place(fact.id, "ready") is not None:
                raise Violation("wake", f"{[child.name for child in sleepers]} sleep, though {fact} can be claimed")
        due = [
            view.place(fact.id, "scheduled")
            for fact in self.model.of_state("waiting")
            if fact.queue == queue and fact.sound()
        ]
        first = min((moment for moment in due if moment is not None), default=None)
        if first is not None and watched and all(one.wakes_at > now + first - view.now for one in sleepers):
            raise Violation("watch", f"{[child.name for child in sleepers]} sleep past {first}")
