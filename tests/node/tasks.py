"""Tasks of the fleet in Python; worker.mjs has the same in Node.js. Each run notes its start and its end."""

from __future__ import annotations

import functools
import os
import time

from django_taskq import Bury, Retry, background

from .ledger import PYTHON, client, note

#: Retried soon, and not all at once.
SOON = {"base": 0.02, "factor": 2, "cap": 1, "jitter": "equal"}


def noted(**options):
    """Declare a task `border.<its name>` that notes when it runs; it is called with its context."""

    def declare(function):
        @functools.wraps(function)
        def run(context, *args, **kwargs):
            result = context.task_result
            who = f"{PYTHON}-{os.getpid()}"
            note("begin", result.id, context.attempt, context.fencing_token, who)
            end = "failed"
            try:
                value = function(context, *args, **kwargs)
                end = "done"
                return value
            finally:
                note(end, result.id, context.attempt, context.fencing_token, who)

        name = f"border.{function.__name__}"
        return background(name=name, takes_context=True, **{"backoff": SOON, **options})(run)

    return declare


def fail_until(context, failures):
    if context.attempt <= failures:
        raise ValueError(f"attempt {context.attempt} fails in Python")
    return {"by": PYTHON, "attempt": context.attempt}


@noted()
def work(context, number, failures=0):
    """Fail so many times, then succeed."""
    return fail_until(context, failures)


@noted()
def python_only(context, number, failures=0):
    return fail_until(context, failures)


@background(name="border.node_only", queue_name="border", backoff=SOON, remote=True)
def node_only(number, failures=0):
    """Run in worker.mjs; it is enqueued into the queue of all others, for a check warns of one declared there."""


@noted()
def hold(context, gate):
    """Run until the test opens a gate, for all or for this attempt."""
    deadline = time.monotonic() + 30
    while not client().exists(f"gate:{gate}", f"gate:{gate} {context.attempt}") and time.monotonic() < deadline:
        time.sleep(0.005)
    return {"by": PYTHON, "attempt": context.attempt}


@noted(max_attempts=5)
def step(context, milliseconds):
    """Take some time."""
    time.sleep(milliseconds / 1000)
    return {"by": PYTHON, "attempt": context.attempt}


@noted()
def give(context, size):
    return "x" * size


@noted()
def give_half(context):
    return ["😀", "\udc80"]


@noted()
def retry_after(context, seconds):
    if context.attempt == 1:
        raise Retry(after=seconds)
    return context.attempt


@noted()
def bury(context):
    raise Bury("declined")


@noted()
def echo_on(context, value):
    """Hand on to Node.js what came from there, and return it."""
    following = echo_last.using(queue_name="node").enqueue(value, again=value)
    client().hset("hops", context.task_result.id, following.id)
    return value


@noted()
def echo_last(context, value, again=None):
    return value
