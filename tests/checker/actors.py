"""Who talks to the queue. Each keeps the client's side of the protocol, and repeats what wasn't answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from django_taskq.broker.records import Claim, Claimed, Lease, NewRecord
from django_taskq.broker.settlements import Bury, Complete, Release, Retry, Settlement

from .themes import LEASE, WAIT

if TYPE_CHECKING:
    from .world import World

MAX_ATTEMPTS = 2
RESULT_TTLS = (0, 1_000, 90_000)

Action = Callable[[], object]


@dataclass
class Rules:
    """The client's rules of the protocol, each of which can be taken out."""

    rearm_after_pop: bool = True
    same_nonce_when_repeated: bool = True
    fence_dead_children: bool = True
    release_unknown_leases: bool = True
    claim_before_waiting: bool = True
    claim_when_due: bool = True


@dataclass
class Held:
    """A lease on the board."""

    lease: Lease
    #: Milliseconds of the monotonic clock.
    deadline: int
    begun: bool = False
    cancel: bool = False
    #: How it is being settled, until that is answered.
    settlement: Settlement | None = None
    #: Redis lost what it knew of this lease, so another may run the task as well.
    excused: bool = False

    def __str__(self) -> str:
        return f"{self.lease.id} {self.lease.token}"


class Holder:
    """Has a board, renews it and settles."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.board: dict[tuple[str, int], Held] = {}

    def __str__(self) -> str:
        return self.name

    def put(self, lease: Lease) -> None:
        self.board.setdefault((lease.id, lease.token), Held(lease, 0)).deadline = round(lease.deadline * 1000)

    def settle(self, held: Iterable[Held], claim: Claim | None = None) -> bool:
        """Send settlements, and a claim with them; tell whether it was answered."""
        entries = list(held)
        settlements = [entry.settlement for entry in entries if entry.settlement is not None]
        answer = self.world.send(lambda: self.world.broker.exchange(settlements, claim))
        if answer is None:
            return False
        for entry in entries:
            self.board.pop((entry.lease.id, entry.lease.token), None)
        if claim is not None:
            self.claimed(claim, answer[1])
        return True

    def finish(self, entry: Held) -> None:
        """End the attempt; or send the end again that wasn't answered."""
        entry.settlement = entry.settlement or self.end(entry)
        self.settle([entry])

    def claimed(self, claim: Claim, claimed: Claimed) -> None:
        raise NotImplementedError

    def claiming(self) -> bool:
        """Tell whether it waits for the answer to a claim."""
        raise NotImplementedError

    def renew(self) -> None:
        """Renew the whole board, as its supervisor does."""
        entries = list(self.board.values())
        sent_at = self.world.clock.now
        leases = [(entry.lease.id, entry.lease.queue, entry.lease.token) for entry in entries]
        words = self.world.send(lambda: self.world.broker.renew(leases, LEASE))
        for entry, word in zip(entries, words or (), strict=bool(words)):
            if word == "LOST" and entry.settlement is None:
                del self.board[entry.lease.id, entry.lease.token]
            elif word != "LOST":
                entry.deadline, entry.cancel = sent_at + LEASE, word == "CANCEL"

    def end(self, entry: Held) -> Settlement:
        """Choose how an attempt ends."""
        dice, lease = self.world.dice, entry.lease
        ttl = dice.choose(RESULT_TTLS)
        if entry.cancel:
            return Retry(lease, 0, b'{"error": "cancelled"}', result_ttl_ms=ttl)
        way = dice.choose(self.world.theme.ways)
        if way == "complete":
            return Complete(lease, b'{"result": 1}', ttl)
        if way == "bury" or (way == "fail" and lease.attempt >= MAX_ATTEMPTS):
            return Bury(lease, b'{"error": "E"}', result_ttl_ms=ttl)
        delay = dice.choose(self.world.theme.delays)
        if way == "fail":
            return Retry(lease, delay, b'{"error": "E"}', result_ttl_ms=ttl)
        words = dice.choose(({}, {"keep": True}, {"unknown": True}))
        return Release(lease, delay, result_ttl_ms=ttl, **words)


class Child(Holder):
    """Claims for its free slots, waits on the markers when there is nothing, runs and settles."""

    def __init__(self, world: World, name: str, queues: tuple[str, ...], slots: int) -> None:
        super().__init__(world, name)
        self.queues = queues
        self.slots = slots
        self.nonce = 0
        self.unanswered: Claim | None = None
        self.blocked = False
        #: Moment of the monotonic clock at which it wakes by itself; `watches` when that is because work is due.
        self.wakes_at = 0
        self.watches = False
        #: The queue whose marker it popped and is about to put back, since it stops.
        self.arming: str | None = None

    @property
    def free(self) -> int:
        return self.slots - len(self.board)

    def claiming(self) -> bool:
        return self.unanswered is not None

    def awake(self) -> bool:
        """Tell whether it is going to claim, or to arm, without being woken."""
        if self.unanswered or self.arming:
            return True
        if self.blocked:
            return self.wakes_at <= self.world.clock.now and self.world.rules.claim_when_due
        return self.free > 0 and self.world.rules.claim_before_waiting

    def actions(self) -> list[Action]:
        """Return what it might do now."""
        if self.arming:
            return [self.arm]
        found: list[Action] = []
        if self.unanswered:
            found += [self.claim, self.claim]
        elif self.blocked and self.markers():
            found += [self.pop, self.pop]
        elif self.free > 0 and self.awake():
            found += [self.claim, self.claim]
        elif self.free > 0 and not self.blocked:
            found.append(self.wait)
        haste = self.world.theme.haste
        for entry in self.board.values():
            found += [partial(self.finish if entry.begun or entry.settlement else self.begin, entry)] * haste
        if self.board:
            found += [self.renew] * self.world.theme.patience
        if self.blocked and not self.unanswered and not self.board and self.world.dice.pick(16) == 15:
            found.append(partial(self.world.stopped, self))
        return found

    def markers(self) -> list[str]:
        return [queue for queue in self.queues if queue in self.world.wire.view.wake]

    def next_claim(self) -> Claim:
        if self.unanswered is None or not self.world.rules.same_nonce_when_repeated:
            self.nonce += 1
            self.unanswered = Claim(self.name, self.nonce, self.free, LEASE, self.queues)
        return self.unanswered

    def claim(self) -> None:
        """Claim, and settle in the same round trip what waits for its answer."""
        ending = [entry for entry in self.board.values() if entry.settlement is not None]
        self.settle(ending if self.world.dice.pick(2) else (), self.next_claim())

    def claimed(self, claim: Claim, claimed: Claimed) -> None:
        self.unanswered = None
        sent_at = self.world.clock.now
        for lease in claimed.leases:
            self.put(lease)
            if self.world.dice.pick(3):
                self.begin(self.board[lease.id, lease.token])
        due = claimed.next_due_ms
        self.watches = due is not None and due < WAIT
        self.wakes_at = sent_at + (due if self.watches else WAIT)
        self.blocked = self.free > 0 and not claimed.stale

    def wait(self) -> None:
        self.blocked, self.wakes_at = True, self.world.clock.now + WAIT

    def pop(self) -> None:
        """Pop a marker; now and then stop after it, which obliges to put it back."""
        queue = self.world.send(lambda: self.world.broker.wait(self.queues, 0.01))
        self.blocked = False
        if queue is not None and not self.board and self.world.dice.pick(8) == 7:
            if self.world.rules.rearm_after_pop:
                self.arming = queue
            else:
                self.world.stopped(self)
        self.go_on()

    def go_on(self) -> None:
        """Claim at once, as a child does when it can, unless something comes between."""
        if (
            self in self.world.children
            and self.awake()
            and not (self.unanswered or self.arming)
            and self.world.dice.pick(4)
        ):
            self.claim()

    def finish(self, entry: Held) -> None:
        super().finish(entry)
        self.go_on()

    def arm(self) -> None:
        queue = self.arming
        assert queue is not None
        if self.world.send(lambda: self.world.broker.arm(queue) or True):
            self.world.stopped(self)

    def begin(self, entry: Held) -> None:
        """Begin the body, unless the lease has ended by this side's clock or a row knows a later claim."""
        lease, now = entry.lease, self.world.clock.now
        if entry.deadline <= now:
            entry.settlement = Release(lease)
            return
        known = self.world.rows_tokens.get(lease.id, 0)
        if lease.head.record_alias and known > lease.token:
            entry.settlement = Release(lease, self.world.dice.choose(self.world.theme.delays), floor=known)
            self.settle([entry])
            return
        if lease.head.record_alias:
            self.world.rows_tokens[lease.id] = max(known, lease.token)
        entry.begun = True


class Supervisor(Holder):
    """Clears up after a child that died: fences its last claim off, and ends what it held."""

    def __init__(self, world: World, child: Child) -> None:
        super().__init__(world, child.name)
        self.board = child.board
        self.queues = child.queues
        self.fence: Claim | None = None
        if world.rules.fence_dead_children:
            self.fence = Claim(child.name, child.nonce, 0, LEASE, child.queues)
        for entry in self.board.values():
            if not entry.begun and entry.settlement is None:
                entry.settlement = Release(entry.lease)

    def claiming(self) -> bool:
        return self.fence is not None

    def actions(self) -> list[Action]:
        if self.fence is not None:
            return [partial(self.settle, (), self.fence)]
        found: list[Action] = [partial(self.finish, entry) for entry in self.board.values()]
        return [*found, self.renew] if self.board else []

    def claimed(self, claim: Claim, claimed: Claimed) -> None:
        self.fence = None
        for lease in claimed.leases:
            if (lease.id, lease.token) not in self.board and self.world.rules.release_unknown_leases:
                self.put(lease)
                self.board[lease.id, lease.token].settlement = Release(lease)


class Reaper:
    """Reads what has lapsed, and ends it, perhaps much later."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[Settlement] = []

    def read(self) -> None:
        expired = self.world.send(lambda: self.world.broker.expired(self.world.queues))
        for lease in expired.leases if expired else ():
            self.found.append(self._decide(lease))

    def _decide(self, lease: Lease) -> Settlement:
        if lease.attempt >= MAX_ATTEMPTS:
            return Bury(lease, b'{"error": "lease expired"}', lapsed=True)
        return Retry(lease, self.world.dice.choose(self.world.theme.delays), b'{"error": "lease expired"}', lapsed=True)

    def reap(self) -> None:
        settlement = self.world.dice.choose(self.found)
        answer = self.world.send(lambda: self.world.broker.exchange([settlement], None))
        if answer is not None:
            self.found.remove(settlement)

    def actions(self) -> list[Action]:
        if self.found:
            return [self.reap, self.reap, self.read]
        now, leased = self.world.now, self.world.model.of_state("leased")
        return [self.read] if any(fact.lease_end <= now for fact in leased) or not self.world.dice.pick(4) else []


class Admin:
    """Acts on what was on the page, however long ago that was."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: (id, died_at) of dead letters seen.
        self.seen: list[tuple[str, int]] = []

    def look(self) -> None:
        for fact in self.world.model.of_state("dead"):
            if (fact.id, fact.died_at) not in self.seen:
                self.seen.append((fact.id, fact.died_at))
        del self.seen[:-8]

    def choose(self) -> list[tuple[str, int]]:
        start = self.world.dice.pick(len(self.seen))
        return self.seen[start : start + 1 + self.world.dice.pick(2)]

    def requeue(self) -> None:
        chosen, delay = self.choose(), self.world.dice.choose(self.world.theme.delays)
        self.world.send(lambda: self.world.broker.requeue([(*pair, delay) for pair in chosen]))

    def discard(self) -> None:
        chosen, ttl = self.choose(), self.world.dice.choose(RESULT_TTLS)
        self.world.send(lambda: self.world.broker.discard(chosen, ttl))

    def cancel(self) -> None:
        leased = sorted(fact.id for fact in self.world.model.of_state("leased"))
        ids = leased if leased and self.world.dice.pick(3) else sorted(self.world.model.facts.records)
        ttl, start = self.world.dice.choose(RESULT_TTLS), self.world.dice.pick(len(ids))
        chosen = ids[start : start + 1 + self.world.dice.pick(2)]
        self.world.send(lambda: self.world.broker.cancel(chosen, ttl))

    def promote(self) -> None:
        view, ids = self.world.wire.view, sorted(fact.id for fact in self.world.model.of_state("waiting"))
        record_id = self.world.dice.choose([one for one in ids if view.place(one, "scheduled") is not None] or ids)
        self.world.send(lambda: self.world.broker.promote(record_id))

    def actions(self) -> list[Action]:
        found: list[Action] = []
        if any((fact.id, fact.died_at) not in self.seen for fact in self.world.model.of_state("dead")):
            found += [self.look, self.look]
        if self.world.model.facts.records:
            found += [self.cancel]
        if self.world.model.of_state("waiting"):
            found += [self.promote]
        if self.seen:
            found += [self.requeue, self.requeue, self.discard]
        return found


@dataclass
class Producer:
    """Enqueues; holds the rows of the records that have one, as the relay does, and sends them again at any time."""

    world: World
    count: int = 0
    #: Batches without an answer, and when each was first sent.
    unanswered: list[tuple[int, list[NewRecord]]] = field(default_factory=list)
    rows: dict[str, NewRecord] = field(default_factory=dict)

    def make(self) -> NewRecord:
        self.count += 1
        choose, theme = self.world.dice.choose, self.world.theme
        key = choose(theme.keys)
        delay, at = choose(theme.delays), choose((0, 0, 0, 0, 0, 1_000))
        record = NewRecord(
            id=f"r{self.count:03}",
            queue=choose(self.world.queues),
            envelope=b'{"v":1,"name":"t"}',
            priority=choose((0, 0, 5, -100)),
            delay_ms=delay,
            at_ms=at and self.world.wire.view.now + at,
            key=key,
            key_ttl_ms=choose(theme.key_ttls) if key else 0,
            record_alias=choose(theme.rows),
        )
        if record.record_alias:
            self.rows[record.id] = record
        return record

    def enqueue(self) -> None:
        records = [self.make() for _ in range(1 + self.world.dice.pick(self.world.theme.batch))]
        records += records[:1] if self.world.dice.pick(12) == 11 else []
        self.unanswered.append((self.world.clock.now, records))
        self._push(len(self.unanswered) - 1)

    def repeat(self) -> None:
        self._push(self.world.dice.pick(len(self.unanswered)))

    def _push(self, index: int) -> None:
        if self._send(self.unanswered[index][1]):
            del self.unanswered[index]

    def push(self) -> None:
        """Send one or two rows, whether or not that was done before."""
        rows = sorted(self.rows.values(), key=lambda record: record.id)
        start = self.world.dice.pick(len(rows))
        self._send(rows[start : start + 1 + self.world.dice.pick(2)])

    def _send(self, records: list[NewRecord]) -> bool:
        answers = self.world.send(lambda: self.world.broker.enqueue(records))
        for record, answer in zip(records, answers or (), strict=bool(answers)):
            if answer.word == "TAKEN" or (answer.state in ("succeeded", "cancelled") and answer.id == record.id):
                self.rows.pop(record.id, None)
        return answers is not None

    def forget(self) -> None:
        """Give up what waited for a minute; close the rows that repair has asked about within the day."""
        self.unanswered = [batch for batch in self.unanswered if batch[0] + 60_000 > self.world.clock.now]
        facts, now = self.world.model.facts, self.world.wire.view.now
        for record_id in list(self.rows):
            fact, alias = facts.records.get(record_id), facts.aliases.get(record_id)
            ended = fact is not None and fact.ended_at and fact.ended_at + 20 * 3_600_000 < now
            if ended or (alias and alias[1] - 4 * 3_600_000 < now):
                del self.rows[record_id]

    def actions(self) -> list[Action]:
        found: list[Action] = []
        if len(self.world.model.of_state("waiting")) < 6 and len(self.world.model.facts.records) < 20:
            found += [self.enqueue, self.enqueue]
        if self.unanswered:
            found += [self.repeat, self.repeat]
        if self.rows:
            found.append(self.push)
        return found
