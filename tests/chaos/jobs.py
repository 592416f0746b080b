"""Tasks of the chaos run. Each notes that it began, what it did outside the database, and that it ended."""

from __future__ import annotations

import asyncio
import threading

from django_taskq import background
from tests.chaos.history import note

#: As many as no task meets by accident.
MANY = {"max_attempts": 100, "backoff": 0.05, "takes_context": True}
FEW = {**MANY, "max_attempts": 2}


def noted(what, context, call):
    note(what, call=call, id=context.task_result.id, token=context.fencing_token, attempt=context.attempt)


def pause(seconds):
    """Wait; libfaketime breaks time.sleep, but no other way."""
    threading.Event().wait(seconds)


@background(**MANY)
def work(context, call, seconds):
    noted("begin", context, call)
    pause(seconds)
    noted("effect", context, call)
    noted("end", context, call)
    return call


@background(**MANY)
async def awork(context, call, seconds):
    noted("begin", context, call)
    await asyncio.sleep(seconds)
    noted("effect", context, call)
    noted("end", context, call)
    return call


@background(**MANY)
def fail_once(context, call, seconds):
    work.func(context, call, seconds)
    if context.attempt == 1:
        raise ConnectionError("the far side was away")
    return call


@background(**FEW)
def fail(context, call, seconds):
    work.func(context, call, seconds)
    raise ValueError("never works")


def mixture():
    """Return each task with how often it is enqueued beside the others."""
    return {work: 40, awork: 15, fail_once: 6, fail: 2}
