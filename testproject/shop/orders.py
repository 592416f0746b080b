"""Placing an order: it is stored, and what follows is enqueued, or nothing of it happens."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from . import tasks
from .models import Order, Step, StockExport


def place(order: Order) -> None:
    """Store an order and enqueue its tasks; raise `OutOfStock` and do neither when there isn't enough.

    The tasks reach Redis when the transaction has committed. `EnqueueError` says that the order is stored, and that
    Redis couldn't be reached then.
    """
    with transaction.atomic():
        order.save()
        payment = tasks.capture_payment.using(idempotency_key=f"payment-{order.number}")
        reminder = tasks.send_reminder.using(run_after=settings.REMINDER_AFTER)
        results = {
            Step.Kind.CONFIRMATION: tasks.send_confirmation.enqueue(order.pk),
            Step.Kind.PAYMENT: payment.enqueue(order.pk),
            Step.Kind.WAREHOUSE: tasks.notify_warehouse.enqueue(order.pk),
            Step.Kind.REMINDER: reminder.enqueue(order.pk),
        }
        Step.objects.bulk_create(Step(order=order, kind=kind, result_id=result.id) for kind, result in results.items())
        order.product.take(order.quantity)


def request_export(user: AbstractBaseUser) -> StockExport:
    """Ask for a file with the stock."""
    with transaction.atomic():
        export = StockExport.objects.create(requested_by=user)
        export.result_id = tasks.export_stock.enqueue(export.pk).id
        export.save(update_fields=["result_id"])
    return export
