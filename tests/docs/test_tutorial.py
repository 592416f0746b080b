"""The tutorial, followed from its first line to its last."""

from __future__ import annotations

import html
import re
import time

import pytest

from scripts.demo.check import Browser
from scripts.demo.processes import DemoError
from tests.docs.project import ROOT
from tests.waiting import wait_until

TUTORIAL = (ROOT / "docs" / "tutorial" / "first-steps.md").read_text()
LETTERS = "/admin/django_taskq/deadletter/"


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page))


class PatientBrowser(Browser):
    """Tries again while `runserver` starts anew, because code has changed."""

    def _open(self, request):
        deadline = time.monotonic() + 20
        while True:
            try:
                return super()._open(request)
            except DemoError as error:
                if " failed: " not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


class Reader:
    """Somebody who reads the tutorial with a browser at hand."""

    def see_the_dead_letter(self, project):
        self.browser = PatientBrowser(project.address)
        self.browser.submit("/admin/login/", username="admin", password="secret", next="/admin/")
        assert "Dead letters" in text_of(self.browser.get("/admin/"))
        [self.letter] = set(re.findall(rf'href="({LETTERS}default[^"]+/change/[^"]*)"', self.browser.get(LETTERS)))
        page = text_of(self.browser.get(self.letter))
        assert "orders.tasks.OvenIsCold" in page
        assert "Traceback (most recent call last)" in page
        assert "It has 20 °C" in page

    def retry_the_dead_letter(self, project):
        page = self.browser.get(self.letter)
        button = re.search(r'formaction="([^"]+)" name="op" value="([^"]+)"[^>]*>Retry<', page)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
        self.browser.post(html.unescape(button[1]), csrfmiddlewaretoken=token, op=html.unescape(button[2]))
        _, log = project.running["python manage.py runtaskworker"]
        wait_until(lambda: "path=orders.tasks.bake state=SUCCESSFUL" in log.read_text(), 15)
        assert "default%3A" not in self.browser.get(LETTERS)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_tutorial_works_as_written(project):
    reader = Reader()
    project.follow(
        TUTORIAL,
        see_the_dead_letter=reader.see_the_dead_letter,
        retry_the_dead_letter=reader.retry_the_dead_letter,
    )
