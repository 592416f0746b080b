"""Judge each answer of a script by the model, and move the model on by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from redis.exceptions import ResponseError

from .model import DAY, ENDED, MINUTE, Fact, Model
from .view import View
from .wire import Violation

GOALS = {"complete": "succeeded", "retry": "waiting", "bury": "dead", "release": "waiting"}
#: Values in ARGV for each record.
SIZES = {"complete": 5, "retry": 7, "bury": 6, "release": 8}


def groups(flat: list[Any], size: int) -> Iterator[list[Any]]:
    return (flat[start : start + size] for start in range(0, len(flat), size))


class Judge:
    """Listens to the wire. `words` counts what was answered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.words: Counter[str] = Counter()

    def __call__(self, script: str, arguments: list[str], reply: Any, before: View, after: View) -> None:
        self.before, self.after, self.now = before, after, before.now
        self.facts = self.model.facts
        if isinstance(reply, ResponseError):
            self.model.compare(after)
            raise Violation("error", f"{script} {arguments} failed: {reply}")
        if script in GOALS:
            for group, word in zip(groups(arguments, SIZES[script]), reply, strict=True):
                self._settled(script, group, word)
                self.words[f"{script} {word}"] += 1
        else:
            getattr(self, f"_{script}")(arguments, reply)
        self.model.compare(after)

    # --- enqueue

    def _enqueue(self, arguments: list[str], reply: list[Any]) -> None:
        for group, (word, answered, state, enqueued_at) in zip(groups(arguments, 7), groups(reply, 4), strict=True):
            self.words[f"enqueue {word}"] += 1
            fact = self.facts.records.get(group[0])
            if word == "STORED":
                self._stored(group, fact)
            elif word == "TAKEN":
                self._taken(group, answered, state, fact)
            elif fact is None and group[0] not in self.model.history.graves:
                raise Violation("lost", f"{group[0]} is said to exist, but it doesn't")
            elif fact is not None and not fact.broken:
                self._exists(fact, state, int(enqueued_at))

    def _stored(self, group: list[str], old: Fact | None) -> None:
        record_id, queue, priority, delay, at, lines, _ = group
        key_line = next((line for line in lines.split("\n") if line.startswith("key ")), None)
        _, key_ttl, key = key_line.split(" ", 2) if key_line else ("", "0", None)
        if old is not None and not old.broken:
            raise Violation("doubled", f"{old} was stored again")
        if record_id in self.facts.aliases and self.now < self.facts.aliases[record_id][1]:
            raise Violation("doubled", f"{record_id} was answered TAKEN, and was stored when sent again")
        if holder := self.model.holder(key, record_id, self.now):
            raise Violation("key", f"{record_id} was stored, though {holder} holds its key")
        self.facts.aliases.pop(record_id, None)
        self.facts.records[record_id] = Fact(
            record_id, queue, int(priority), key, int(key_ttl), "record " in lines, self.now,
            max(int(at), self.now + int(delay)),
        )  # fmt: skip

    def _taken(self, group: list[str], answered: str, state: str, fact: Fact | None) -> None:
        record_id, row = group[0], "record " in group[5]
        known = self.facts.aliases.get(record_id)
        if fact is not None and not fact.broken:
            raise Violation("word", f"TAKEN for {fact}")
        if known and self.now < known[1]:
            if known[0] != answered:
                raise Violation("word", f"{record_id} was a duplicate of {known[0]}, and now of {answered}")
            return
        holder = self.facts.records.get(answered)
        if holder is None or holder is not self.model.holder(holder.key, record_id, self.now):
            raise Violation("key", f"{record_id} was refused for {answered}, which holds no key: {holder}")
        if state != holder.state:
            raise Violation("word", f"{record_id} was refused for {holder}, said to be {state}")
        self.facts.aliases[record_id] = answered, self.now + (DAY if row else MINUTE)

    def _exists(self, fact: Fact, state: str, enqueued_at: int) -> None:
        if (state, enqueued_at) != (fact.state, fact.enqueued_at):
            raise Violation("word", f"EXISTS says {state} {enqueued_at} of {fact}")
        if not fact.displaced:
            return
        fact.displaced = False
        if not self.after.places.get(fact.id):
            raise Violation("lost", f"{fact} is in no set, and wasn't put back")
        if fact.state == "leased":
            fact.lease_end = self.now
        elif fact.state == "dead":
            self._died(fact)
        else:
            score = self.after.place(fact.id, "scheduled")
            ready = self.after.place(fact.id, "ready")
            fact.due = score if score is not None else (ready or 0) + fact.priority * 10**13

    # --- claim

    def _claim(self, arguments: list[str], reply: list[Any]) -> None:
        child, nonce, count, lease_ms, *queues = arguments
        if reply == ["STALE"]:
            self.words["claim STALE"] += 1
            return
        self._check_due(int(reply[1]), queues)
        granted = [self._lease(child, int(lease_ms), group) for group in groups(reply[2:], 7)]
        self.words["claim"] += 1
        self.words["leases"] += len(granted)
        if int(nonce) > int(self.before.journals.get(child, {}).get("nonce", 0)):
            self._check_choice(granted, int(count), queues)
            for queue in self.after.wake - self.before.wake:
                if not self._left(queue, full=len(granted) >= int(count)):
                    raise Violation("spin", f"{child} armed {queue}, where there is nothing to claim")
        else:
            self.words["claim again"] += 1

    def _check_due(self, told: int, queues: list[str]) -> None:
        """Check the milliseconds until the next due record, by which a worker sets its timer."""
        due = [
            max(0, score - self.now)
            for places in self.after.places.values()
            for queue, part, score in places
            if part == "scheduled" and queue in queues
        ]
        if told != min(due, default=-1):
            raise Violation("watch", f"{told} ms until the next due record of {queues}, not {min(due, default=-1)}")

    def _left(self, queue: str, full: bool) -> bool:
        """Tell whether there is something to claim in a queue, or a due time that this worker can't watch."""
        return any(
            found == queue and (part == "ready" or (part == "scheduled" and (full or score <= self.now)))
            for places in self.after.places.values()
            for found, part, score in places
        )

    def _lease(self, child: str, lease_ms: int, group: list[Any]) -> Fact:
        record_id, _, token, attempts, releases, unknown_ms, task = group
        fact = self.facts.records.get(record_id)
        if fact is None or fact.broken or task != self.before.tasks.get(record_id):
            raise Violation("lost", f"{child} was given {record_id}, which isn't there: {fact}")
        if fact.state == "leased" and (fact.token, fact.child) == (int(token), child):
            self.words["lease again"] += 1
        else:
            self._grant(fact, child, int(token), int(attempts))
        fact.lease_end = self.now + lease_ms
        if (int(attempts), int(releases)) != (fact.attempts, fact.releases):
            raise Violation("attempts", f"the lease says {attempts} attempts, {releases} releases of {fact}")
        if (int(unknown_ms) == -1) != (fact.unknown_since is None):
            raise Violation("attempts", f"the lease says unknown for {unknown_ms} ms, of {fact}")
        return fact

    def _grant(self, fact: Fact, child: str, token: int, attempts: int) -> None:
        if fact.state != "waiting" or fact.displaced:
            raise Violation("one place", f"{child} was given {fact}")
        if fact.due > self.now and self.before.place(fact.id, "ready") is None:
            raise Violation("early", f"{child} was given {fact} at {self.now}")
        if fact.cancel:
            raise Violation("cancel", f"{child} was given {fact}, which was cancelled")
        largest = self.model.history.tokens.get(fact.id, 0)
        # Redis lost a later claim and its clock is behind that one: then nothing is promised.
        excused = fact.token < largest and self.now <= largest
        if token <= max(fact.token, fact.floor) or (token <= largest and not excused):
            raise Violation("token", f"{token} follows {largest} (floor {fact.floor}) of {fact}")
        if excused:
            self.words["token excused"] += 1
            self.model.history.unsure.add((fact.id, token))
        elif other := self.model.valid_elsewhere(fact.id, token):
            raise Violation("taken", f"{child} was given {fact}, which {other} still holds")
        self.model.history.tokens[fact.id] = max(largest, token)
        fact.state, fact.token, fact.child, fact.attempts = "leased", token, child, fact.attempts + 1

    def _check_choice(self, granted: list[Fact], count: int, queues: list[str]) -> None:
        if len(granted) > count:
            raise Violation("order", f"{len(granted)} leases for {count} slots")
        for position, queue in enumerate(queues):
            left = self.model.claimable(self.after, queue)
            if not left:
                continue
            later = [fact for fact in granted if fact.queue in queues[position + 1 :]]
            worse = [fact for fact in granted if fact.queue == queue and self._rank(fact) > self._rank(left[0])]
            if len(granted) < count or later or worse:
                raise Violation("order", f"{left[0]} was passed over, for {later + worse}")

    @staticmethod
    def _rank(fact: Fact) -> tuple[int, str]:
        return fact.due - fact.priority * 10**13, fact.id

    # --- what a holder, a reaper or a supervisor sends

    def _settled(self, script: str, group: list[str], word: str) -> None:
        record_id, token = group[0], int(group[2])
        fact = self.facts.records.get(record_id)
        same = fact is not None and fact.token == token
        holds = same and fact.state == "leased" and not fact.displaced
        detail = f"{script} under {token} was answered {word}, of {fact}"
        if word in ("DONE", "HELD", "ORPHANED") and not holds:
            raise Violation("fence", detail)
        if word == "ORPHANED" and not fact.broken:
            raise Violation("lost", detail)
        if word == "ALREADY" and not (same and fact.state == GOALS[script]):
            raise Violation("word", detail)
        if word == "LEASE_LOST" and same and not fact.displaced and fact.state in ("leased", GOALS[script]):
            raise Violation("word", detail)
        if (
            word == "CANCELLED"
            and record_id not in self.model.history.graves
            and not (same and (fact.state == "cancelled" or (holds and fact.cancel)))
        ):
            raise Violation("word", detail)
        if word == "HELD" and (group[3] != "1" or self._lapsed(fact)):
            raise Violation("word", f"{detail}, at {self.now}")
        if fact is not None and holds and word in ("DONE", "CANCELLED"):
            if script in ("retry", "bury") and group[3] == "1" and (other := self.model.valid_elsewhere(record_id, 0)):
                raise Violation("taken", f"{detail}, but {other} still holds it")
            self._end_attempt(script, fact, group, word)

    def _lapsed(self, fact: Fact) -> bool:
        return fact.lease_end <= self.now or fact.lease_end > self.now + DAY

    def _end_attempt(self, script: str, fact: Fact, group: list[str], word: str) -> None:
        words = group[5].split() if script == "release" else []
        if script != "release" or "keep" in words:
            fact.log.append((fact.attempts, fact.token, fact.child))
        if script != "release":
            fact.releases, fact.unknown_since = 0, None
        if word == "CANCELLED":
            self._ended(fact, "cancelled", int(group[{"retry": 5, "bury": 4, "release": 6}[script]]))
        elif script == "complete":
            self._ended(fact, "succeeded", int(group[3]))
        elif fact.cancel:
            raise Violation("cancel", f"{script} revived {fact}, which was cancelled")
        elif script == "bury":
            self._died(fact)
        else:
            fact.state = "waiting"
            delay = int(group[3] if script == "release" else group[4])
            if script == "retry" or delay > 0:
                fact.due = self.now + delay
        if script == "release":
            fact.attempts -= "keep" not in words
            fact.floor = max(fact.floor, int(group[4]))
            fact.token = max(fact.token, int(self.after.runs[fact.id].get("token", 0)))
            if "unknown" in words:
                fact.releases += 1
                fact.unknown_since = fact.unknown_since or self.now

    def _ended(self, fact: Fact, state: str, result_ttl: int) -> None:
        fact.state, fact.ended_at, fact.result_ttl, fact.displaced = state, self.now, result_ttl, False

    def _died(self, fact: Fact) -> None:
        fact.state, fact.died_at, fact.deaths = "dead", self.now, fact.deaths + 1
        self.model.history.deaths.setdefault((fact.id, self.now), set()).add(fact.deaths)

    def _renew(self, arguments: list[str], reply: list[str]) -> None:
        for (record_id, _, token), word in zip(groups(arguments[1:], 3), reply, strict=True):
            self.words[f"renew {word}"] += 1
            fact = self.facts.records.get(record_id)
            holds = fact is not None and fact.state == "leased" and fact.token == int(token)
            if word != "LOST":
                if not holds or fact.displaced:
                    raise Violation("fence", f"{fact} was renewed under {token}")
                if (word == "CANCEL") != fact.cancel:
                    raise Violation("cancel", f"the holder of {fact} was told {word}")
                fact.lease_end = self.now + int(arguments[0])
            elif holds and not fact.displaced:
                raise Violation("word", f"{fact} was not renewed under {token}")

    def _expired(self, arguments: list[str], reply: list[Any]) -> None:
        shown = {(group[0], group[2]) for group in groups(reply[2:], 8)}
        leased = [fact for fact in self.facts.records.values() if fact.state == "leased" and fact.sound()]
        lapsed = {(fact.id, str(fact.token)) for fact in leased if fact.queue in arguments[1:] and self._lapsed(fact)}
        if {(record_id, str(token)) for record_id, token in shown} != lapsed:
            raise Violation("reap", f"{shown} are shown as lapsed, not {lapsed}")
        self.words["lapsed"] += len(shown)
        ends = [fact.lease_end for fact in leased if fact.queue in arguments[1:] and fact.lease_end > self.now]
        if ends and not 0 <= int(reply[1]) <= min(ends) - self.now:
            raise Violation("reap", f"{reply[1]} ms until the next lapse, which is at {min(ends)}")

    # --- what an admin sends

    def _cancel(self, arguments: list[str], reply: list[str]) -> None:
        for record_id, word in zip(arguments[1:], reply, strict=True):
            self.words[f"cancel {word}"] += 1
            fact = self.facts.records.get(record_id)
            states = {"DONE": ("waiting",), "ASKED": ("leased",), "ALREADY": ("cancelled",), "MISSING": ENDED}
            if fact is None or fact.broken:
                continue
            if fact.state not in states.get(word, ("succeeded", "dead")):
                raise Violation("word", f"cancel was answered {word}, of {fact}")
            if word == "DONE":
                self._ended(fact, "cancelled", int(arguments[0]))
            fact.cancel = fact.cancel or word == "ASKED"

    def _requeue(self, arguments: list[str], reply: list[str]) -> None:
        for (record_id, died_at, delay), word in zip(groups(arguments, 3), reply, strict=True):
            self.words[f"requeue {word}"] += 1
            fact = self._dead(record_id, int(died_at), word)
            holder = self.model.holder(fact.key, record_id, self.now) if fact else None
            if fact is None:
                continue
            if (word == "TAKEN") != (holder is not None):
                raise Violation("key", f"requeue of {fact} was answered {word}; its key is held by {holder}")
            if word == "DONE":
                fact.state, fact.due = "waiting", self.now + int(delay)
                fact.attempts = fact.releases = 0
                fact.unknown_since, fact.cancel = None, False

    def _discard(self, arguments: list[str], reply: list[str]) -> None:
        for (record_id, died_at), word in zip(groups(arguments[1:], 2), reply, strict=True):
            self.words[f"discard {word}"] += 1
            fact = self._dead(record_id, int(died_at), word)
            if fact is not None and word == "DONE":
                self._ended(fact, "cancelled", int(arguments[0]))

    def _dead(self, record_id: str, died_at: int, word: str) -> Fact | None:
        """Return the dead record that an answer is about, or None where nothing was to be done."""
        fact = self.facts.records.get(record_id)
        dead = fact is not None and fact.state == "dead" and fact.sound()
        if word == "ORPHANED":
            if fact is None or not fact.broken:
                raise Violation("lost", f"{fact} was taken for an orphan")
            return None
        if word == "CHANGED":
            if dead and fact.died_at == died_at:
                raise Violation("word", f"{fact} was said to have changed since {died_at}")
            return None
        if not dead or fact.deaths not in self.model.history.deaths.get((record_id, died_at), ()):
            raise Violation("undid", f"a death at {died_at} was meant, and was answered {word}, of {fact}")
        return fact

    def _promote(self, arguments: list[str], reply: str) -> None:
        self.words[f"promote {reply}"] += 1
        fact = self.facts.records.get(arguments[0])
        scheduled = self.before.place(arguments[0], "scheduled") is not None
        if fact is not None and not fact.broken:
            if (reply == "DONE") != scheduled:
                raise Violation("word", f"promote was answered {reply}, of {fact}")
            if reply == "DONE":
                fact.due = self.now
