"""Tasks of the kill run. Each run notes that it began and that it ended, so that the driver can count."""

from __future__ import annotations

import time

from django_taskq import background
from tests.chaos.notes import note


@background(max_attempts=20, backoff=0.05, takes_context=True)
def work(context, milliseconds):
    note("begin", context.task_result.id, context.fencing_token)
    time.sleep(milliseconds / 1000)
    note("end", context.task_result.id, context.fencing_token)
    return context.attempt


@background(max_attempts=20, backoff=0.05, takes_context=True)
async def awork(context, milliseconds):
    work.func(context, milliseconds)


@background(max_attempts=20, backoff=0.05, takes_context=True)
def fail_once(context):
    work.func(context, 1)
    if context.attempt == 1:
        raise ConnectionError("the far side was away")


@background(max_attempts=2, backoff=0.05, takes_context=True)
def fail(context):
    work.func(context, 1)
    raise ValueError("never works")
