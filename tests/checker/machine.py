"""The state machine: Hypothesis chooses who acts, what becomes of the request, and what befalls whom."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import redis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from .actors import Action, Rules
from .shim import Clock
from .themes import THEMES, TROUBLES
from .wire import Violation, Wire
from .world import World

numbers = st.integers(0, 2**24 - 1)
#: Steps of one run, after which another begins with an empty server.
STEPS_PER_RUN = 100
#: Runs of one seed.
RUNS_PER_SEED = 25


@dataclass
class Lab:
    """What all runs of a test share."""

    server: redis.Redis
    wire: Wire
    clock: Clock
    rules: Rules = field(default_factory=Rules)
    #: The theme of every run, where it isn't drawn.
    theme: str | None = None
    #: Steps that did something, how often each was taken, and what was answered.
    steps: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)


class Checker(RuleBasedStateMachine):
    lab: ClassVar[Lab]

    @initialize(theme=st.sampled_from(sorted(THEMES)), spared=st.sets(st.sampled_from(TROUBLES)))
    def begin(self, theme: str, spared: set[str]) -> None:
        """Begin with an empty server; some troubles are spared in this run, so that others get further."""
        lab, chosen = self.lab, THEMES[self.lab.theme or theme]
        self.world = World(lab.server, lab.wire, lab.clock, lab.rules, chosen)
        self.actors = chosen.actors()
        self.troubles = [name for name in chosen.troubles if lab.theme or name not in spared]

    @rule(turn=numbers, fate=numbers, number=numbers)
    def step(self, turn: int, fate: int, number: int) -> None:
        """Let somebody act, and check what must hold after it."""
        world, lab = self.world, self.lab
        world.dice.throw(number)
        actor = self.actors[turn % len(self.actors)]
        world.wire.fate = fate = world.theme.fates[fate % len(world.theme.fates)]
        actions = getattr(self, f"_{actor}")() or self._child() or self._producer() or self._time()
        action = world.dice.choose(actions)
        name = f"{actor} {name_of(action)}"
        lab.steps += 1
        lab.taken[" ".join(name.split()[:2])] += 1
        world.story.append(f"{name} [{fate}]")
        try:
            action()
            world.wire.fate = "fine"
            world.check()
        except Violation as violation:
            violation.add_note("\n".join(["What happened:", *world.story]))
            raise

    def _child(self) -> list[Action]:
        found: list[Action] = []
        for index, child in enumerate(self.world.children):
            found += [partial(self.world.start, index)] if child is None else child.actions()
        return found

    def _producer(self) -> list[Action]:
        return self.world.producer.actions()

    def _supervisor(self) -> list[Action]:
        busy = [actions for supervisor in self.world.supervisors if (actions := supervisor.actions())]
        return self.world.dice.choose(busy) if busy else []

    def _reaper(self) -> list[Action]:
        return self.world.reaper.actions()

    def _admin(self) -> list[Action]:
        return self.world.admin.actions()

    def _network(self) -> list[Action]:
        return [self.world.late_request_arrives] if self.world.wire.late else []

    def _time(self) -> list[Action]:
        return [partial(self.world.advance, self.world.dice.choose(self.world.theme.lapses))]

    def _crash(self) -> list[Action]:
        return [self.world.crash]

    def _trouble(self) -> list[Action]:
        return [getattr(self.world, name) for name in self.troubles if self.world.can(name)]

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.lab.words += self.world.judge.words


def name_of(action: Action) -> str:
    """Name an action for the story."""
    if isinstance(action, partial):
        return " ".join([action.func.__name__, *(str(argument) for argument in action.args if argument)])
    return action.__name__


def explore(lab: Lab, seed_number: int, steps: int, *, shrink: bool = False) -> None:
    """Take at least this many steps and raise the first Violation; each seed stands for the same few runs."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    chosen = settings(
        max_examples=RUNS_PER_SEED,
        stateful_step_count=STEPS_PER_RUN,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    while lab.steps < steps:
        machine = seed(seed_number)(type("Checking", (Checker,), {"lab": lab}))
        try:
            run_state_machine_as_test(machine, settings=chosen)
        except Violation as violation:
            violation.add_note(f"Again, with the same tests: TASKQ_CHECKER_SEED={seed_number} TASKQ_CHECKER_STEPS=1")
            raise
        seed_number += 1


def report(lab: Lab, started_at: float) -> str:
    """Say what was done."""
    seconds = time.perf_counter() - started_at
    words = ", ".join(f"{word} {count}" for word, count in sorted(lab.words.items()))
    taken = ", ".join(f"{name} {count}" for name, count in sorted(lab.taken.items()))
    return f"{lab.steps} steps in {seconds:.1f} s ({lab.steps / seconds:.0f} a second)\n{words}\n{taken}"
