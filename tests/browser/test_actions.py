"""Retrying and discarding dead letters in a browser, with scripts and without."""

from __future__ import annotations

from collections import Counter

import pytest

from django_taskq.broker.inspector import Inspector
from django_taskq.dashboard import operations
from tests.app.admin import VIEW, bury, bury_many, entries, error, letter_url, url

ALL = (*VIEW, "retry_deadletter", "discard_deadletter")


@pytest.fixture
def broker(backend):
    return backend.broker


def states(broker, ids):
    return Counter(str(record.state) for record in Inspector(broker).records(ids))


def message(page):
    return page.locator(".messagelist li").first.inner_text()


def press(page, name):
    page.get_by_role("button", name=name).click()
    page.wait_for_load_state()


def follow(page, name):
    page.get_by_role("link", name=name).first.click()
    page.wait_for_load_state()


def test_a_letter_is_found_read_and_retried(visit, broker):
    bury_many(broker, 3, "mail")
    record_id = bury(broker, "payments", "shop.pay", error("shop.Declined", "no money", "the traceback"), args=[4711])
    visitor = visit(*ALL)
    page = visitor.open(url("deadletter"))
    page.fill("#searchbar", "arg:4711")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=arg**")
    page.locator("#result_list").get_by_role("link", name="shop.pay").click()
    page.wait_for_url("**/change/**")
    assert "the traceback" in page.locator(".field-traceback").inner_text()
    press(page, "Retry")
    assert message(page) == "1 dead letter was retried."
    assert "q=arg" in page.url
    assert states(broker, [record_id]) == {"waiting": 1}
    page = visitor.open(letter_url(record_id), "gone")
    assert "its state is now “waiting”" in page.content()
    assert "user0" in page.locator("#change-history").inner_text()


def test_all_that_a_filter_shows_are_selected_and_retried(visit, broker):
    mail, other = bury_many(broker, 120, "mail"), bury_many(broker, 5, "other")
    visitor = visit(*ALL)
    page = visitor.open(url("deadletter"))
    follow(page, "mail (120)")
    page.check("#action-toggle")
    page.get_by_role("button", name="Select all 120 dead letters").click()
    page.select_option("select[name=action]", "retry_selected")
    page.click("button[name=index]")
    page.wait_for_load_state()
    visitor.look("confirm-all")
    press(page, "Yes, retry")
    assert message(page) == "120 dead letters were retried."
    assert page.url.endswith("?queue=mail")
    assert (states(broker, mail), states(broker, other)) == ({"waiting": 120}, {"dead": 5})
    assert len(entries()) == 1


def test_thousands_go_on_by_themselves_and_show_how_far(visit, broker, monkeypatch):
    monkeypatch.setattr(operations, "SECONDS", 0)
    ids = bury_many(broker, 2500, "mail")
    visitor = visit(*ALL)
    page = visitor.open(url("deadletter"))
    follow(page, "Discard all matching")
    seen = []
    page.on("framenavigated", lambda frame: seen.append(frame.url))
    page.get_by_role("button", name="Yes, discard").click()
    page.wait_for_selector(".messagelist")
    assert message(page) == "2,500 dead letters were discarded."
    assert sum("progress" in address for address in seen) == 3
    assert states(broker, ids) == {"cancelled": 2500}
    assert len(entries()) == 1


def test_without_scripts_all_works_by_links_and_buttons(visit, broker, monkeypatch):
    monkeypatch.setattr(operations, "SECONDS", 0)
    ids = bury_many(broker, 1500, "mail")
    visitor = visit(*ALL, java_script_enabled=False)
    page = visitor.page
    page.goto(url("deadletter") + "?queue=mail&p=2")
    page.locator(".action-select").nth(3).check()
    page.select_option("select[name=action]", "retry_selected")
    page.click("button[name=index]")
    follow(page, "No, take me back")
    assert page.url.endswith("?queue=mail&p=2")
    page.locator(".action-select").nth(3).check()
    page.select_option("select[name=action]", "retry_selected")
    page.click("button[name=index]")
    press(page, "Yes, retry")
    assert states(broker, ids) == {"waiting": 1, "dead": 1499}
    follow(page, "Retry all matching")
    press(page, "Yes, retry")
    assert page.locator("progress").get_attribute("value") == "1000"
    visitor.look("progress")
    press(page, "Continue")
    press(page, "Continue")
    assert message(page) == "1,499 dead letters were retried."
    assert states(broker, ids) == {"waiting": 1500}


def test_who_may_only_look_finds_no_button(visit, broker):
    record_id = bury(broker)
    visitor = visit(*VIEW)
    for path in (url("deadletter"), letter_url(record_id)):
        page = visitor.open(path)
        for name in ("Retry", "Discard"):
            assert page.get_by_text(name).count() == 0
