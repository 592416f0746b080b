"""The same charge with four guards. Each loses its lease at its first attempt, before or after it has charged."""

from __future__ import annotations

import time
from pathlib import Path

from django.conf import settings
from django.db import transaction

from django_taskq import background

from .models import Charge, Fence

BEFORE, AFTER = "before", "after"


class Stale(Exception):
    """A newer attempt has been here."""


def stands_still(result_id: str) -> Path:
    """Return the file that is there once the first attempt at a task stands still."""
    return settings.DATA_DIR / f"ledger-{result_id}"


def lose_lease(context, now: bool) -> None:
    """Stand still, as a process that was frozen, until another may run this task too."""
    if not now or context.attempt > 1:
        return
    stands_still(context.task_result.id).touch()
    deadline = time.monotonic() + 20
    while not context.lease_lost and time.monotonic() < deadline:
        time.sleep(0.01)


@background(backend="ledger", takes_context=True)
def charge_unguarded(context, order: int, loses: str) -> None:
    lose_lease(context, loses == BEFORE)
    Charge.objects.create(guard="none", order=order)
    lose_lease(context, loses == AFTER)


@background(backend="ledger", takes_context=True)
def charge_fenced(context, order: int, loses: str) -> None:
    lose_lease(context, loses == BEFORE)
    with transaction.atomic():
        Fence.objects.get_or_create(order=order)
        if not Fence.objects.filter(order=order, token__lt=context.fencing_token).update(token=context.fencing_token):
            raise Stale(f"Order {order} was charged under a newer token.")
        Charge.objects.create(guard="token", order=order)
    lose_lease(context, loses == AFTER)


@background(backend="ledger", takes_context=True)
def charge_with_key(context, order: int, loses: str) -> None:
    lose_lease(context, loses == BEFORE)
    # The same for each attempt at this task.
    Charge.objects.get_or_create(key=context.idempotency_key, defaults={"guard": "key", "order": order})
    lose_lease(context, loses == AFTER)


@background(backend="ledger", takes_context=True, atomic=True)
def charge_atomic(context, order: int, loses: str) -> None:
    lose_lease(context, loses == BEFORE)
    Charge.objects.create(guard="atomic", order=order)
    lose_lease(context, loses == AFTER)


#: Each guard, as its charges name it, what it is, and its task.
GUARDS = {
    "none": ("no guard", charge_unguarded),
    "token": ("the ledger checks the fencing token", charge_fenced),
    "key": ("the ledger looks for the idempotency key", charge_with_key),
    "atomic": ("atomic=True", charge_atomic),
}
