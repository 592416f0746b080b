"""Tasks of the casebook; what they note is read by the tests."""

from __future__ import annotations

import os
import time

from asgiref.sync import sync_to_async
from django.db import connections, transaction

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


def count_up(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS counted (number INTEGER)")
        cursor.execute("INSERT INTO counted VALUES (1)")


@background(max_attempts=1)
def query():
    """Ask both databases; return whether both connections were as a request would find them."""
    found = []
    for alias in ("default", "other"):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")
        found.append(connections[alias].get_autocommit() and not connections[alias].in_atomic_block)
    return all(found)


@background(max_attempts=1)
async def aquery():
    return await sync_to_async(query.func)()


@background(max_attempts=1)
def leave_transaction(how):
    """Write, and end without ending the transaction."""
    if how == "no autocommit":
        connections["default"].set_autocommit(False)
        count_up("default")
    if how == "open block":
        transaction.atomic().__enter__()
        count_up("default")
    if how == "failed block":
        with transaction.atomic():
            count_up("default")
            raise ValueError("in the middle")


@background
def count():
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM counted")
        return cursor.fetchone()[0]
