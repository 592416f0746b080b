"""Every page of the admin in a browser: sound, legible by day and by night, and narrow enough for a phone."""

from __future__ import annotations

import pytest

from tests.app.admin import VIEW, bury, bury_many, error, letter_url, url
from tests.app.test_admin_records import keep
from tests.broker.helpers import envelope, lease_one, put

ALL = (*VIEW, "view_taskrecord", "retry_deadletter", "discard_deadletter")
TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 42, in capture_payment
    gateway.capture(order.reference, amount=order.total)
  File "/srv/shop/gateway.py", line 17, in capture
    raise Declined(f"card {card} was declined")
shop.gateway.Declined: card 4242 was declined
"""
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e"

#: The contrast between the text and the background of each of our own elements, the smallest first.
CONTRAST = """() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('#content [class*=taskq] , #content [class*=taskq] *')]
    .filter(e => e.offsetParent && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => {
      const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      return [Math.round((a + .05) / (b + .05) * 10) / 10, e.className, e.textContent.slice(0, 30)];
    })
    .sort((x, y) => x[0] - y[0]);
}"""


@pytest.fixture
def pages(backend):
    """Fill the queue with what a shop may have, and return its pages by name."""
    broker = backend.broker
    declined = error("shop.gateway.Declined", "card 4242 was declined", TRACEBACK * 3)
    bury_many(broker, 70, "mail", "shop.tasks.send_confirmation", error("smtplib.SMTPServerDisconnected", "closed"))
    odd = bury(broker, "payments", HOSTILE, error(HOSTILE, HOSTILE, HOSTILE), args=[HOSTILE], kwargs={HOSTILE: HOSTILE})
    lines = [{"order": 17, "lines": [1, 2]}]
    paid = bury(broker, "payments", "shop.tasks.capture_payment", declined, args=lines, kwargs={"api_key": "hunter2"})
    lease = lease_one(broker, "exports", child="web-1.k3j9x0aa", envelope=envelope("shop.tasks.export_stock"))
    put(broker, 12, "mail", envelope=envelope("shop.tasks.send_confirmation"))
    keep(paid, "shop.tasks.capture_payment", "dead", queue="payments")
    keep("01M8MNRF0AED36CMVMSZTG7KR3", "shop.tasks.send_confirmation", queue="mail", result='{"sent":true}')
    return {
        "queues": url("queue"),
        "queue": url("queue", "change", "default_3Amail"),
        "leases": url("lease"),
        "lease": url("lease", "change", f"default_3A{lease.id}"),
        "dead": url("deadletter"),
        "filtered": url("deadletter") + "?task=shop.tasks.capture_payment",
        "none": url("deadletter") + "?q=nothing",
        "letter": letter_url(paid),
        "odd": letter_url(odd),
        "retry": url("deadletter", "retry") + "?queue=mail",
        "discard": url("deadletter", "discard") + f"?key=default:{paid}",
        "records": url("taskrecord"),
        "record": url("taskrecord", "change", paid),
    }


@pytest.mark.parametrize("width", [1280, 360])
def test_every_page_is_sound_and_legible(visit, pages, width):
    visitor = visit(*ALL, viewport={"width": width, "height": 800})
    for name, path in pages.items():
        page = visitor.open(path)
        assert "hunter2" not in page.content()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate("document.getAnimations().forEach(animation => animation.finish())")
            visitor.look(f"{name}-{scheme}-{width}")
            assert [found for found in page.evaluate(CONTRAST) if found[0] < 4.5] == []


def test_the_sidebar_and_the_tabs_mark_where_one_is(visit, pages):
    page = visit(*ALL).open(pages["leases"])
    assert page.locator("#nav-sidebar [aria-current=page]").inner_text() == "Active leases"
    assert page.locator(".taskq-tabs [aria-current=page]").inner_text().split("\n")[0].startswith("Active leases")
    assert [text.split(" ")[0] for text in page.locator(".taskq-tabs a").all_inner_texts()] == [
        "Queues",
        "Active",
        "Dead",
        "Task",
    ]


def test_the_lists_have_the_parts_that_themes_expect(visit, pages):
    page = visit(*ALL).open(pages["dead"])
    for part in ("#changelist", "#searchbar", "#changelist-filter", "#result_list", ".paginator", ".actions"):
        assert page.locator(part).count() == 1, part
