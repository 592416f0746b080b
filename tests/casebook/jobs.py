"""Tasks of the casebook; what they note is read by the tests."""

from __future__ import annotations

import os
import time

from django_taskq import background
from tests.processes import is_alive
from tests.redis.jobs import note, notes, wait_for_note


@background(backoff=0, takes_context=True)
def hold_or_lose(context, name="a", then="return"):
    """Run until a line is noted, or until the lease is lost and the test has seen that."""
    note("begin", name, context.attempt)
    while f"go {name}" not in notes() and not context.lease_lost:
        time.sleep(0.01)
    if context.lease_lost:
        note("lost", name)
        wait_for_note(f"end {name}")
    if then == "raise":
        raise ValueError("too late")
    return context.attempt


@background(timeout=10)
def hold_with_limit(name):
    note("begin", name)
    wait_for_note("go")


@background
def hold_without_limit(name):
    hold_with_limit.func(name)


@background(max_attempts=40, backoff=0.05, takes_context=True)
def step(context, milliseconds):
    note("begin", context.task_result.id, context.fencing_token)
    time.sleep(milliseconds / 1000)
    note("end", context.task_result.id, context.fencing_token)


@background
def tell(*words):
    note(*words)


@background(backoff=0)
def hold_alone(until):
    """Note whether another run of this task is under way, then run until a line is noted."""
    others = [int(line.split()[1]) for line in notes() if line.startswith("pid ")]
    note("pid", os.getpid())
    note("beside another" if any(map(is_alive, others)) else "alone")
    wait_for_note(until)
