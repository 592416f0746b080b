"""A stand-in for a payment provider, which fails as the real ones do, but at known times."""

from __future__ import annotations

import time

from .models import Order


class GatewayTimeout(Exception):
    """The payment provider didn't answer in time."""


class PaymentRefused(Exception):
    """The bank refuses this payment."""


def capture(order: Order, *, attempt: int) -> None:
    """Take the money for an order: every third is in luck on its second attempt only, and some products never are."""
    time.sleep(0.2)
    if order.product.payment_refused:
        raise PaymentRefused(f"The bank refuses to pay £{order.total} for “{order.product}”.")
    if order.pk % 3 == 0 and attempt == 1:
        raise GatewayTimeout("No answer from payments.example.com within 0.2 s.")
