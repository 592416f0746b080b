"""The tutorials, followed from their first line to their last."""

from __future__ import annotations

import html
import re
import time

import pytest

from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from scripts.demo.check import Browser
from scripts.demo.processes import DemoError
from tests.docs.project import ROOT
from tests.node import build
from tests.waiting import wait_until

TUTORIALS = ROOT / "docs" / "tutorial"
LETTERS = "/admin/django_taskq/deadletter/"


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page))


class PatientBrowser(Browser):
    """Tries again while `runserver` starts anew, because code has changed."""

    def _open(self, request):
        deadline = time.monotonic() + 60
        while True:
            try:
                return super()._open(request)
            except DemoError as error:
                if " failed: " not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


class Reader:
    """Somebody who reads a tutorial with a browser at hand, and finds there what is expected of the dead letter."""

    def __init__(self, expected):
        self.expected = expected

    def see_the_dead_letter(self, project):
        self.browser = PatientBrowser(project.address)
        self.browser.submit("/admin/login/", username="admin", password="secret", next="/admin/")
        assert "Dead letters" in text_of(self.browser.get("/admin/"))
        [self.letter] = set(re.findall(rf'href="({LETTERS}default[^"]+/change/[^"]*)"', self.browser.get(LETTERS)))
        page = text_of(self.browser.get(self.letter))
        for text in self.expected:
            assert text in page

    def retry_the_dead_letter(self, project):
        page = self.browser.get(self.letter)
        button = re.search(r'formaction="([^"]+)" name="op" value="([^"]+)"[^>]*>Retry<', page)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
        self.browser.post(html.unescape(button[1]), csrfmiddlewaretoken=token, op=html.unescape(button[2]))
        inspector = Inspector(Broker.from_url(project.redis_url, "bakery"))
        wait_until(lambda: not any(each.ready or each.leased for each in inspector.counts().values()), 15)
        assert "default%3A" not in self.browser.get(LETTERS)


def follow(project, page, *expected, **own_steps):
    """Follow a tutorial from its first line to its last; its dead letter shows what is expected."""
    reader = Reader(expected)
    own_steps["see_the_dead_letter"] = reader.see_the_dead_letter
    own_steps["retry_the_dead_letter"] = reader.retry_the_dead_letter
    project.follow((TUTORIALS / page).read_text(), **own_steps)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_first_steps_work_as_written(project):
    follow(project, "first-steps.md", "orders.tasks.OvenIsCold", "Traceback (most recent call last)", "It has 20 °C")


@pytest.mark.slow
@pytest.mark.timeout(300)  # The client may have to be built.
def test_two_languages_work_as_written(project):
    build.require()
    expected = ["labels.write", "RangeError", "Incorrect locale information provided", "worker.mjs"]
    follow(project, "two-languages.md", *expected, stop_the_node_worker=lambda project: project.end("node worker.mjs"))
