"""A browser, logged in, that fails a test when a page breaks a rule: its policy, its console, its width."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.app.admin import staff

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
#: Where pictures of the pages go, if anywhere.
SCREENSHOTS = os.environ.get("TASKQ_SCREENSHOTS")

#: Reports what the policy refused, before any script of the page runs.
WATCH = "document.addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective));"


def _missing(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is not installed, and CI needs it")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start a browser for a module; while it runs, so does an event loop, and no test after it must find one."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright")
    if not os.path.exists(CHROMIUM):
        _missing(CHROMIUM)
    # Playwright runs an event loop in this thread, in which Django's ORM then refuses to work.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


class Visitor:
    """Somebody at a browser; what pages complain about is collected in `problems`."""

    def __init__(self, browser: Any, address: str, session: str, **options: Any) -> None:
        self.context = browser.new_context(base_url=address, **options)
        self.context.add_cookies([{"name": "sessionid", "value": session, "url": address}])
        self.context.add_init_script(WATCH)
        self.context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url}"))
        self.page.on("request", lambda request: self._check_host(request.url, address))

    def _check_host(self, url: str, address: str) -> None:
        if not url.startswith((address, "data:")):
            self.problems.append(f"leads elsewhere: {url}")

    def open(self, path: str, picture: str = "") -> Any:
        """Open a page, see that it is sound, and take its picture."""
        response = self.page.goto(path)
        assert response.status == 200, (path, response.status)
        self.look(picture)
        return self.page

    def look(self, picture: str = "") -> None:
        """See that the page is sound: one heading, no sideways scrolling, no complaints."""
        assert self.page.locator("h1").count() == 1
        assert self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"), (
            "it scrolls sideways"
        )
        assert self.problems == []
        if SCREENSHOTS and picture:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=os.path.join(SCREENSHOTS, f"{picture}.png"), full_page=True)


@pytest.fixture
def visit(chromium: Any, live_server: Any) -> Iterator[Callable[..., Visitor]]:
    """Give a function that logs a user with these permissions in at a new browser window."""
    visitors: list[Visitor] = []

    def make(*permissions: str, **options: Any) -> Visitor:
        client = Client()
        client.force_login(staff(*permissions, name=f"user{len(visitors)}"))
        session = client.cookies["sessionid"].value
        visitors.append(Visitor(chromium, live_server.url, session, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.context.close()
        assert visitor.problems == []


@pytest.fixture
def backend(redis_server: Any) -> Any:
    """Give the backend `default`, whose server is empty."""
    from django_taskq.compat import task_backends

    return task_backends["default"]
