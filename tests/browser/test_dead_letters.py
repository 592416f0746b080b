"""The pages of the admin, as somebody at a browser meets them."""

from __future__ import annotations

import pytest

from tests.app.admin import VIEW, bury, bury_many, error, letter_url, url
from tests.broker.helpers import envelope, lease_one, put

ALL = (*VIEW, "retry_deadletter", "discard_deadletter")
TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 42, in capture_payment
    gateway.capture(order.reference, amount=order.total)
  File "/srv/shop/gateway.py", line 17, in capture
    raise Declined(f"card {card} was declined")
shop.gateway.Declined: card 4242 was declined
"""


def fill(broker):
    """Fill three queues with what a shop may have."""
    for number in range(3):
        failure = error("shop.gateway.Declined", "card 4242 was declined", TRACEBACK)
        bury(broker, "payments", "shop.tasks.capture_payment", failure, args=[number], kwargs={"api_key": "hunter2"})
    bury_many(broker, 70, "mail", "shop.tasks.send_confirmation", error("smtplib.SMTPServerDisconnected", "closed"))
    lease_one(broker, "exports", child="web-1-4711.k3j9x0aa", envelope=envelope("shop.tasks.export_stock"))
    put(broker, 12, "mail", envelope=envelope("shop.tasks.send_confirmation"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_every_page_is_sound(visit, backend, scheme, width):
    broker = backend.broker
    fill(broker)
    odd = bury(
        broker, "payments", "<b>bold</b>\u202etxt", error("x.<script>alert(1)</script>", "<img src=x onerror=alert(1)>")
    )
    paid = bury(
        broker,
        "payments",
        "shop.tasks.capture_payment",
        error("shop.gateway.Declined", "no", TRACEBACK * 3),
        args=[{"order": 17, "lines": [1, 2]}],
        kwargs={"api_key": "hunter2", "note": "Grüße"},
    )
    visitor = visit(*ALL, color_scheme=scheme, viewport={"width": width, "height": 800})
    name = f"{scheme}-{width}"
    visitor.open(url("queue"), f"queues-{name}")
    visitor.open(url("lease"), f"leases-{name}")
    visitor.open(url("deadletter"), f"dead-{name}")
    visitor.open(url("deadletter") + "?q=nothing", f"none-{name}")
    visitor.open(url("deadletter") + "?task=shop.tasks.capture_payment", f"filtered-{name}")
    visitor.open(letter_url(odd), f"odd-{name}")
    visitor.open(letter_url(paid), f"letter-{name}")
    visitor.open(url("deadletter", "retry") + "?queue=mail", f"confirm-{name}")
    visitor.open(url("deadletter", "discard") + f"?key=default:{paid}", f"discard-{name}")
