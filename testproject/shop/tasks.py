"""What the shop does behind its customers' backs.

A task may run twice, so each looks at what is done before it does it.
"""

from __future__ import annotations

import csv
import os

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string
from django.utils import timezone

from django_taskq import background

from . import gateway, warehouse
from .models import Order, Product, Receipt, Step, StockExport


def get_order(order_id: int) -> Order:
    return Order.objects.select_related("product").get(pk=order_id)


def send(subject: str, template: str, order: Order) -> None:
    send_mail(subject, render_to_string(template, {"order": order}), None, [order.email])


@background(queue_name="mail", max_attempts=5)
def send_confirmation(order_id: int) -> str:
    order = get_order(order_id)
    if order.confirmed_at is None:
        send(f"Your order {order.number}", "shop/mail/confirmation.txt", order)
        Order.objects.filter(pk=order_id).update(confirmed_at=timezone.now())
    return f"Sent to {order.email}"


@background(queue_name="payments", max_attempts=3, backoff={"base": 1, "factor": 2}, timeout=10, takes_context=True)
def capture_payment(context, order_id: int) -> str:
    order = get_order(order_id)
    if order.paid_at is None:
        # The far side takes the money once for each order, however often it is asked.
        gateway.capture(order, attempt=context.attempt)
        order.paid_at = timezone.now()
        order.save(update_fields=["paid_at"])
    if settings.RECEIPTS:
        order_receipt(order)
    return f"£{order.total} captured"


@background(name="receipts.render", remote=True, queue_name="receipts", max_attempts=5)
def render_receipt(receipt: dict[str, object]) -> str:
    """Make the receipt's HTML, and enqueue `file_receipt` with it; return the id of that task.

    The Node.js service in testproject/receipts does so: there is nothing to run here.
    """


def order_receipt(order: Order) -> None:
    """Enqueue what makes the receipt, and note it as a step of the order; whoever does so twice changes nothing."""
    receipt = {
        "number": order.number,
        "name": order.name,
        "product": order.product.name,
        "quantity": order.quantity,
        "price": str(order.product.price),
        "total": str(order.total),
        "paid_at": order.paid_at.isoformat(),
    }
    result = render_receipt.using(idempotency_key=f"receipt-{order.number}").enqueue(receipt)
    Step.objects.update_or_create(order=order, kind=Step.Kind.RECEIPT, defaults={"result_id": result.id})


@background(name="receipts.file", takes_context=True)
def file_receipt(context, number: str, html: str) -> str:
    """File a receipt with its order; the service enqueues this by its name."""
    order = Order.objects.get(number=number)
    Receipt.objects.get_or_create(order=order, defaults={"html": html, "result_id": context.task_result.id})
    return "Filed"


@background
async def notify_warehouse(order_id: int) -> str:
    order = await Order.objects.select_related("product").aget(pk=order_id)
    if not order.parcel:
        order.parcel = await warehouse.announce(order)
        await order.asave(update_fields=["parcel"])
    return f"Parcel {order.parcel}"


@background(queue_name="mail")
def send_reminder(order_id: int) -> str:
    order = get_order(order_id)
    if order.reminded_at is None:
        send(f"How is your {order.product}?", "shop/mail/reminder.txt", order)
        Order.objects.filter(pk=order_id).update(reminded_at=timezone.now())
    return f"Sent to {order.email}"


@background(queue_name="reports", timeout=60)
def export_stock(export_id: int) -> dict[str, object]:
    settings.EXPORT_DIR.mkdir(parents=True, exist_ok=True)
    name = f"stock-{export_id}.csv"
    products = list(Product.objects.values_list("slug", "name", "price", "stock"))
    unfinished = settings.EXPORT_DIR / f".{name}.{os.getpid()}"
    with open(unfinished, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["slug", "name", "price", "stock"])
        writer.writerows(products)
    unfinished.replace(settings.EXPORT_DIR / name)
    StockExport.objects.filter(pk=export_id).update(file_name=name)
    return {"file": name, "rows": len(products)}
