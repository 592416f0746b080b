"""A customer without a person: orders through the shop's pages, waits, and reports what became of all tasks."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

from django_taskq.broker.inspector import Counts, Inspector

from .processes import DemoError

if TYPE_CHECKING:
    from .__main__ import Demo

#: Orders placed; with every third the payment provider is late at first.
ORDERS = 12
#: Seconds in which everything must be done.
TIMEOUT = 60.0
#: The product whose payment always fails.
REFUSED = "/products/gold-plated-kettle/"
PAYMENT_ATTEMPTS = 3

TASKS = {
    "confirmation": "shop.tasks.send_confirmation",
    "payment": "shop.tasks.capture_payment",
    "warehouse": "shop.tasks.notify_warehouse",
    "receipt": "receipts.render, receipts.file",
    "reminder": "shop.tasks.send_reminder",
    "export": "shop.tasks.export_stock",
}


@dataclass
class Browser:
    """As much of a browser as the shop needs: pages, cookies and forms."""

    address: str

    def __post_init__(self) -> None:
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def get(self, path: str) -> str:
        return self._open(Request(urljoin(self.address, path)))[1]

    def submit(self, path: str, **values: object) -> tuple[str, str]:
        """Fill in the form of a page; return the path where that leads to, and its page."""
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.get(path))
        if token is None:
            raise DemoError(f"The page {path} has no form.")
        return self.post(path, csrfmiddlewaretoken=token[1], **values)

    def post(self, path: str, **values: object) -> tuple[str, str]:
        return self._open(Request(urljoin(self.address, path), urlencode(values).encode()))

    def _open(self, request: Request) -> tuple[str, str]:
        try:
            with self._opener.open(request, timeout=30) as response:
                return "/" + response.url.removeprefix(self.address), response.read().decode()
        except HTTPError as error:
            text = re.sub(r"<[^>]+>|\s+", " ", error.read().decode(errors="replace"))[:300]
            raise DemoError(
                f"{request.get_method()} {request.full_url} was answered with {error.code}: {text}"
            ) from error
        except (URLError, OSError) as error:
            raise DemoError(f"{request.get_method()} {request.full_url} failed: {error}") from error


@dataclass
class Tally:
    """What became of the tasks of one name."""

    enqueued: int = 0
    attempts: int = 0
    done: int = 0
    retried: int = 0
    dead: int = 0

    def add(self, status: str, attempts: int) -> None:
        self.enqueued += 1
        self.attempts += attempts
        self.done += status == "done"
        self.dead += status == "failed"
        self.retried += attempts > 1


@dataclass
class Report:
    """What was found, and what of it isn't as it should be."""

    lines: list[tuple[bool, str]] = field(default_factory=list)

    def expect(self, condition: object, text: str) -> None:
        self.lines.append((bool(condition), text))

    @property
    def failed(self) -> bool:
        return not all(good for good, _ in self.lines)


def place_orders(browser: Browser) -> list[str]:
    """Order every product, the one that can't be paid for once; return the paths of the orders' pages."""
    products = re.findall(r'href="(/products/[^"]+/)"', browser.get("/"))
    payable = [path for path in products if path != REFUSED]
    if not payable or REFUSED not in products:
        raise DemoError("The shop doesn't show the products that it should.")
    chosen = [payable[number % len(payable)] for number in range(ORDERS - 1)]
    chosen.insert(1, REFUSED)
    pages = []
    for number, product in enumerate(chosen, 1):
        customer = {"name": f"Customer {number}", "email": f"customer{number}@example.com"}
        path, _ = browser.submit(product, quantity=1, **customer)
        if not path.startswith("/orders/"):
            raise DemoError(f"The order of {product} wasn't taken; it led to {path}.")
        pages.append(path)
    return pages


def order_too_much(browser: Browser) -> bool:
    """Order more than there is; tell whether the shop refuses that."""
    path, page = browser.submit("/products/assam/", quantity=100_000, name="Giant", email="giant@example.com")
    return path == "/products/assam/" and "There are fewer than" in page


def request_export(browser: Browser) -> None:
    """Log in as a member of staff, and ask for an export of the stock."""
    browser.submit("/admin/login/", username="admin", password="admin", next="/stock/")
    browser.submit("/stock/")


def wait(demo: Demo, condition: Callable[[], object], deadline: float) -> bool:
    """Wait until something is true, or tell that it didn't become so in time."""
    while not condition():
        if time.monotonic() > deadline:
            return False
        demo.check_alive()
        time.sleep(0.2)
    return True


def steps(browser: Browser, pages: list[str]) -> Iterator[tuple[str, str, int]]:
    """Yield kind, status and attempts of the tasks of each order."""
    for page in pages:
        for kind, step in json.loads(browser.get(f"{page}status/")).items():
            yield kind, step["status"], step["attempts"]


def all_ended(browser: Browser, pages: list[str]) -> bool:
    exported = re.search(r'href="/stock/\d+/"', browser.get("/stock/"))
    return bool(exported) and all(status in ("done", "failed") for _, status, _ in steps(browser, pages))


def tally(browser: Browser, pages: list[str]) -> dict[str, Tally]:
    tallies = {kind: Tally() for kind in TASKS}
    for kind, status, attempts in steps(browser, pages):
        tallies[kind].add(status, attempts)
    exported = re.search(r'href="/stock/\d+/"', browser.get("/stock/"))
    tallies["export"].add("done" if exported else "waiting", 1)
    return tallies


def inspect(demo: Demo, browser: Browser, pages: list[str], tallies: dict[str, Tally]) -> Report:
    """Compare what happened with what should have."""
    report = Report()
    counts = Inspector(demo.broker).counts()
    total = Counts(*(sum(getattr(each, place) for each in counts.values()) for place in Counts.__slots__))
    payment, late = tallies["payment"], ORDERS // 3
    succeeding = all(one.done == one.enqueued for kind, one in tallies.items() if kind != "payment")
    report.expect(succeeding, "every mail, parcel, receipt and export is done")
    report.expect(payment.done == ORDERS - 1, f"{payment.done} payments captured, {ORDERS - 1} expected")
    report.expect(payment.retried == late + 1, f"{payment.retried} payments were tried again, {late + 1} expected")
    expected = (ORDERS - 1 - late) + 2 * late + PAYMENT_ATTEMPTS
    report.expect(payment.attempts == expected, f"{payment.attempts} attempts at payments, {expected} expected")
    report.expect(total.dead == 1 == payment.dead, f"{total.dead} dead letter, the payment that is always refused")
    left = total.ready + total.scheduled + total.leased
    report.expect(left == 0, f"{left} tasks are left in the queues")
    mails = Counter(re.findall(r"^To: (\S+)", read_mails(demo), re.MULTILINE))
    right = len(mails) == ORDERS and set(mails.values()) == {2}
    report.expect(right, f"{mails.total()} mails to {len(mails)} customers, two to each expected")
    rows = recorded(demo)
    expected_rows = {"succeeded": sum(one.done for one in tallies.values()), "dead": 1}
    report.expect(rows == expected_rows, f"{sum(rows.values())} rows in the database, one for each task and agreeing")
    made, wanted = count_receipts(browser, pages), 0 if demo.no_receipts else payment.done
    report.expect(made == wanted, f"{made} receipts, {wanted} expected")
    exported = re.search(r'href="(/stock/\d+/)"', browser.get("/stock/"))
    exported_rows = len(browser.get(exported[1]).splitlines()) - 1 if exported else 0
    products = len(re.findall(r'href="/products/[^"]+/"', browser.get("/")))
    report.expect(exported_rows == products, f"{exported_rows} products in the stock export, {products} expected")
    return report


def count_receipts(browser: Browser, pages: list[str]) -> int:
    """Count the receipts that the pages of the orders link, and that are those of their orders."""
    linked = [page for page in pages if f'href="{page}receipt/"' in browser.get(page)]
    return sum(page.split("/")[2] in browser.get(f"{page}receipt/") for page in linked)


def recorded(demo: Demo) -> dict[str, int]:
    """Count the rows of the ended tasks by their status."""
    with contextlib.closing(sqlite3.connect(demo.folder / "shop.sqlite3")) as database:
        return dict(database.execute("SELECT status, COUNT(*) FROM django_taskq_taskrecord GROUP BY status"))


def read_mails(demo: Demo) -> str:
    return "".join(path.read_text(errors="replace") for path in (demo.folder / "mail").glob("*.log"))


def print_table(tallies: dict[str, Tally]) -> None:
    columns = ["enqueued", "attempts", "done", "retried", "dead"]
    print("\n" + "task".ljust(32) + "".join(name.rjust(10) for name in columns))
    print("-" * (32 + 10 * len(columns)))
    for kind, one in tallies.items():
        if one.enqueued:
            print(TASKS[kind].ljust(32) + "".join(f"{getattr(one, name):>10}" for name in columns))
    print("-" * (32 + 10 * len(columns)))
    sums = (sum(getattr(one, name) for one in tallies.values()) for name in columns)
    print("".ljust(32) + "".join(f"{number:>10}" for number in sums) + "\n")


def check(demo: Demo) -> int:
    """Order, wait, report; return 0 when all is as it should be, else 1."""
    begun = time.monotonic()
    browser = Browser(demo.address)
    refused = order_too_much(browser)
    pages = place_orders(browser)
    request_export(browser)
    print(f"Placed {len(pages)} orders through the shop at {demo.address} and requested an export.", flush=True)
    in_time = wait(demo, lambda: all_ended(browser, pages), begun + TIMEOUT)
    tallies = tally(browser, pages)
    report = inspect(demo, browser, pages, tallies)
    report.expect(refused, "an order of more than there is was refused, and enqueued nothing")
    report.expect(in_time, f"everything ended within {TIMEOUT:.0f} s")
    shown = list(steps(browser, pages))
    demo.empty_redis()
    report.expect(list(steps(browser, pages)) == shown, "the rows tell the same when Redis has forgotten everything")
    output = demo.output
    problems = demo.stop()
    report.expect(not problems, "the workers and the web server ended when asked to")
    print_table(tallies)
    for good, text in report.lines:
        print(f"  {'ok    ' if good else 'FAILED'}  {text}")
    if report.failed:
        print("\nNot everything is as it should be. What the processes wrote last:\n", file=sys.stderr)
        print("\n".join(problems) or output, file=sys.stderr)
    else:
        print(f"\nEverything is as it should be ({time.monotonic() - begun:.1f} s).")
    return int(report.failed)
