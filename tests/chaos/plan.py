"""What is going to go wrong, and when: a list of faults that a seed decides, and that can be kept and replayed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

#: Seconds between two faults, on average, and how long a run goes on without one at its start.
GAP, WARM_UP = 0.6, 2.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how often it comes beside the others, how long it lasts, and what it can't share with another.

    `loses` says that Redis forgets what it acknowledged, `rows` that there must be a database server.
    """

    weight: float
    shortest: float = 0.0
    longest: float = 0.0
    subject: str = ""
    loses: bool = False
    rows: bool = False


KINDS = {
    "kill child": Kind(8),
    "kill worker": Kind(2, 0.1, 3),
    "kill client": Kind(1),
    "freeze child": Kind(2, 0.5, 6),
    "freeze worker": Kind(1, 0.5, 8),
    "signal worker": Kind(1.5),
    "shift clock": Kind(1, subject="clock"),
    "cut connections": Kind(3, subject="network"),
    "delay replies": Kind(1, 0.5, 3, subject="network"),
    "hold traffic": Kind(1, 0.5, 4, subject="network"),
    "silence connections": Kind(1, subject="network"),
    "refuse connections": Kind(1, 0.3, 3, subject="network"),
    "lose a reply": Kind(2, 1, 3, subject="network"),
    "freeze Redis": Kind(1, 0.3, 3, subject="redis"),
    "restart Redis": Kind(1.5, 0.0, 2, subject="redis"),
    "fill memory": Kind(1, 0.5, 3, subject="redis"),
    "forget scripts": Kind(1, subject="redis"),
    "flush Redis": Kind(0.6, subject="redis", loses=True),
    "restart Redis empty": Kind(0.4, 0.0, 2, subject="redis", loses=True),
    "restart Redis older": Kind(0.4, 0.5, 4, subject="redis", loses=True),
    "cut database": Kind(1, subject="database", rows=True),
    "restart database": Kind(0.5, 0.0, 2, subject="database", rows=True),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault `at` seconds after the start, for `lasts` seconds; `draw`, from 0 to 1, chooses whom it meets and how."""

    kind: str
    at: float
    lasts: float
    draw: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides a run, besides the machine."""

    seed: int
    seconds: float
    database: str
    faults: Sequence[Fault]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Plan:
        fields = json.loads(path.read_text())
        return cls(**{**fields, "faults": [Fault(**fault) for fault in fields["faults"]]})


def possible(database: str) -> list[str]:
    """Name the faults that a run with this database stands; without an outbox, what Redis forgets is gone."""
    has_server = database in ("postgresql", "mariadb")
    return [
        name for name, kind in KINDS.items() if (has_server or not kind.rows) and (database != "none" or not kind.loses)
    ]


def make(seed: int, seconds: float, database: str, kinds: Iterable[str]) -> Plan:
    """Draw a plan. Two faults of one subject never overlap, so that a part of a plan is a plan too."""
    names = list(kinds)
    draw = random.Random(seed)
    busy: dict[str, float] = {}
    faults = []
    at = WARM_UP
    while names and (at := at + draw.expovariate(1 / GAP)) < seconds:
        name = draw.choices(names, [KINDS[name].weight for name in names])[0]
        kind = KINDS[name]
        lasts = draw.uniform(kind.shortest, kind.longest)
        chosen = draw.random()
        if kind.subject and busy.get(kind.subject, 0.0) > at:
            continue
        # Half a second to recover, or a server would never answer between two faults.
        busy[kind.subject] = at + lasts + 0.5
        faults.append(Fault(name, round(at, 3), round(lasts, 3), chosen))
    return Plan(seed, seconds, database, faults)
