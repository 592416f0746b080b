"""Tasks of the chaos run that have a row in the transaction of their enqueue; the atomic ones act on the database."""

from __future__ import annotations

from django.db import transaction

from django_taskq import background
from tests.chaos import jobs
from tests.chaos.history import note
from tests.chaos.models import Effect, Order


def charge(context, call, seconds):
    """Have an effect in the database; something else may fail after it."""
    jobs.noted("begin", context, call)
    Effect.objects.create(call=call, record=context.task_result.id, token=context.fencing_token)
    jobs.pause(seconds)
    jobs.noted("end", context, call)


@background(outbox=True, **jobs.MANY)
def owork(context, call, seconds):
    return jobs.work.func(context, call, seconds)


@background(outbox=True, **jobs.MANY)
async def aowork(context, call, seconds):
    return await jobs.awork.func(context, call, seconds)


@background(outbox=True, **jobs.FEW)
def outbox_fail(context, call, seconds):
    jobs.fail.func(context, call, seconds)


@background(atomic=True, **jobs.MANY)
def atomic_charge(context, call, seconds):
    charge(context, call, seconds)
    return call


@background(atomic=True, **jobs.MANY)
def atomic_fail_once(context, call, seconds):
    charge(context, call, seconds)
    if context.attempt == 1:
        raise ConnectionError("the far side was away")
    return call


@background(atomic=True, **jobs.FEW)
def atomic_fail(context, call, seconds):
    charge(context, call, seconds)
    raise ValueError("never works")


@background(atomic=True, **jobs.MANY)
def atomic_pass_on(context, call, seconds):
    """Enqueue another, which must run if this one's effects are there, and never if they are not."""
    charge(context, call, seconds)
    passed = f"{call}>{context.fencing_token}"
    Order.objects.create(call=passed)
    note("intent", call=passed, task="atomic_charge", ordered=True, outbox=True, atomic=True)
    result = atomic_charge.enqueue(passed, 0.0)
    transaction.on_commit(lambda: note("accepted", call=passed, ids=[result.id]))
    return call


def mixture():
    """See jobs.mixture()."""
    return {
        owork: 15,
        aowork: 5,
        outbox_fail: 2,
        atomic_charge: 25,
        atomic_fail_once: 4,
        atomic_fail: 2,
        atomic_pass_on: 4,
    }
