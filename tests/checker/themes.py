"""What a run dwells on. Chance alone seldom gets far along one path, so each run favours one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Milliseconds of a lease, and of a wait.
LEASE, WAIT = 10_000, 5_000
HOUR = 3_600_000

#: Who acts, by how often.
ACTORS = {
    "child": 45,
    "producer": 14,
    "supervisor": 6,
    "reaper": 5,
    "admin": 7,
    "network": 5,
    "time": 11,
    "crash": 2,
    "trouble": 4,
}
#: What befalls Redis and whole machines.
TROUBLES = (
    *("copy", "restore", "restore_behind", "clock_back", "forget_scripts"),
    *("spoil", "displace", "flush_all", "burn", "day_passes"),
)
FAILURES = ("lost", "unanswered", "unanswered", "late", "late", "twice", "half")


@dataclass(frozen=True)
class Theme:
    """How often each thing is chosen: one of a tuple, in which the usual stands more often."""

    weights: Mapping[str, int] = field(default_factory=dict)
    #: What becomes of a request.
    fates: tuple[str, ...] = ("fine",) * 9 + FAILURES
    #: How an attempt ends.
    ways: tuple[str, ...] = ("complete", "complete", "fail", "bury", "release", "fail")
    #: Milliseconds from enqueue until due, and after a failed attempt.
    delays: tuple[int, ...] = (0, 0, 0, 300, 2_000, 30_000)
    keys: tuple[str | None, ...] = (None, None, "k0", "k1")
    key_ttls: tuple[int, ...] = (0, 500, 120_000)
    #: Database aliases of rows.
    rows: tuple[str | None, ...] = (None, "default")
    #: Records in one enqueue, at most.
    batch: int = 2
    #: Milliseconds that may pass: nothing much, until a delay, a wait, a lease, the least TTL, and long ones.
    lapses: tuple[int, ...] = (*(1, 40, 300, 1_000) * 4, *(2_000, WAIT, LEASE) * 2, 61_000, 2 * HOUR)
    troubles: tuple[str, ...] = TROUBLES
    #: Milliseconds that the server's clock may be set back by; after the last, leases end more than a day ahead.
    setbacks: tuple[int, ...] = (1, 5_000, 100_000, 25 * HOUR)
    #: How often an attempt is ended, and a lease renewed.
    haste: int = 2
    patience: int = 1

    def actors(self) -> list[str]:
        return [actor for actor, weight in {**ACTORS, **self.weights}.items() for _ in range(weight)]


THEMES = {
    "everyday": Theme(),
    "repeats": Theme({"network": 15, "crash": 8}, fates=("fine",) * 4 + FAILURES),
    "deaths": Theme(
        {"admin": 25, "producer": 20, "trouble": 2},
        ways=("bury", "bury", "complete", "fail"),
        delays=(0,),
        keys=("k0", None),
        rows=(None,),
    ),
    "cancels": Theme({"admin": 15}, ways=("bury", "fail", "release", "complete"), haste=1),
    "keys": Theme({"admin": 12, "producer": 20}, keys=("k0", "k0", "k1"), delays=(0, 0, 300)),
    "lapses": Theme(
        {"reaper": 25, "time": 16, "trouble": 6},
        lapses=(1_000, 2_000, 2_000, WAIT, LEASE),
        troubles=("clock_back", "clock_back", "burn", "displace"),
        setbacks=(5_000, 25 * HOUR),
        haste=1,
        patience=2,
    ),
    "wakes": Theme(
        {"child": 50, "producer": 25, "crash": 3, "trouble": 1},
        ways=("complete", "fail", "release", "release"),
        delays=(0, 0, 0, 300, 1_000, 2_000, 2_000),
        lapses=(1, 40, 300, 1_000, 2_000, WAIT),
        batch=3,
    ),
    "copies": Theme({"trouble": 16}, delays=(0, 0, 300), troubles=("copy", "restore", "restore_behind", "clock_back")),
    "damage": Theme({"trouble": 12, "producer": 20}, keys=(None, "k0", "k0"), troubles=("spoil", "displace")),
    "ends": Theme(
        {"producer": 20, "time": 16},
        ways=("complete",),
        lapses=(1, 300, 1_000, 61_000, 61_000, 2 * HOUR),
        keys=(None, "k0"),
        key_ttls=(120_000, 120_000, 0),
    ),
}
