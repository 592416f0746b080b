"""The tests of the shop, against a Redis: `manage.py test`."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from types import SimpleNamespace

from django.conf import settings
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.db import transaction
from django.test import TransactionTestCase, override_settings
from django.urls import reverse

from django_taskq import EnqueueError
from django_taskq.broker.inspector import Counts, Inspector

from . import gateway, orders, tasks
from .models import Order, OutOfStock, Product, Receipt, Step, StockExport
from .progress import Progress, progress_of_step

PLACED = {"payments": Counts(1, 0, 0, 0), "mail": Counts(1, 1, 0, 0), "default": Counts(1, 0, 0, 0)}


def changed_tasks(**options: object) -> dict:
    """Return TASKS with some options of the backend changed."""
    changed = deepcopy(settings.TASKS)
    changed["default"]["OPTIONS"].update(options)
    return changed


@override_settings(
    TASKS=changed_tasks(namespace="taskq-shop-tests"),
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
)
class ShopTestCase(TransactionTestCase):
    """A shop with one product, and an empty queue."""

    def setUp(self) -> None:
        self.broker = tasks.send_reminder.get_backend().broker
        self.clear()
        self.addCleanup(self.clear)
        self.product = Product.objects.create(name="Sencha", slug="sencha", price=Decimal("12.00"), stock=10)
        self.url = self.product.get_absolute_url()

    def clear(self) -> None:
        for key in self.broker.client.scan_iter(match=f"{{{self.broker.keys.namespace}}}:*"):
            self.broker.client.unlink(key)

    def queued(self) -> dict[str, Counts]:
        """Return the depth of each queue that holds something."""
        return {
            name: counts for name, counts in Inspector(self.broker).counts().items() if counts != Counts(0, 0, 0, 0)
        }

    def submit(self, quantity: int = 1, **values: str):
        return self.client.post(self.url, {"quantity": quantity, "name": "Ada", "email": "ada@example.com", **values})

    def order(self, quantity: int = 1) -> Order:
        return Order(product=self.product, quantity=quantity, name="Ada", email="ada@example.com")


class OrderTests(ShopTestCase):
    def test_an_order_is_stored_and_its_tasks_are_enqueued(self) -> None:
        response = self.submit(quantity=2)
        order = Order.objects.get()
        self.assertRedirects(response, order.get_absolute_url())
        self.product.refresh_from_db()
        assert (order.quantity, str(order.total), self.product.stock) == (2, "24.00", 8)
        assert self.queued() == PLACED

    def test_nothing_reaches_redis_before_the_commit(self) -> None:
        with transaction.atomic():
            orders.place(self.order())
            assert self.queued() == {}
        assert self.queued() == PLACED

    def test_an_order_that_fails_enqueues_nothing(self) -> None:
        response = self.submit(quantity=11)
        self.assertContains(response, "There are fewer than 11 left.")
        self.product.refresh_from_db()
        assert (Order.objects.count(), self.product.stock) == (0, 10)
        assert self.queued() == {}

    def test_the_last_one_is_sold_once(self) -> None:
        orders.place(self.order(10))
        with self.assertRaises(OutOfStock):
            orders.place(self.order())
        assert Order.objects.count() == 1
        assert self.queued() == PLACED

    def test_a_rollback_around_the_order_takes_its_tasks_along(self) -> None:
        with self.assertRaises(RuntimeError), transaction.atomic():
            orders.place(self.order())
            raise RuntimeError
        assert Order.objects.count() == 0
        assert self.queued() == {}

    def test_a_form_that_is_wrong_is_shown_again(self) -> None:
        self.assertContains(self.submit(email="nobody"), "Enter a valid email address.")
        self.assertContains(self.submit(quantity=0), "greater than or equal to 1")
        assert Order.objects.count() == 0

    def test_an_order_is_kept_when_redis_is_away(self) -> None:
        with override_settings(TASKS=changed_tasks(url="redis://127.0.0.1:1/0")):
            response = self.client.get(self.submit().url)
        self.assertContains(response, "Your order is stored")
        self.assertContains(response, "The task queue can&#x27;t be reached just now.")
        assert Order.objects.count() == 1


class PageTests(ShopTestCase):
    def test_products_are_listed(self) -> None:
        self.assertContains(self.client.get("/"), "Sencha")
        self.assertContains(self.client.get(self.url), "Place the order")

    def test_an_order_shows_what_its_tasks_have_done(self) -> None:
        orders.place(self.order())
        url = Order.objects.get().get_absolute_url()
        self.assertContains(self.client.get(url), "Waiting", count=4)
        status = self.client.get(f"{url}status/").json()
        assert status["payment"] == {"status": "waiting", "attempts": 0, "detail": ""}

    def test_the_page_of_an_order_outlives_its_tasks(self) -> None:
        orders.place(self.order())
        self.clear()
        self.assertContains(self.client.get(Order.objects.get().get_absolute_url()), "No longer known", count=4)

    def test_the_stock_is_for_staff(self) -> None:
        url = reverse("shop:stock")
        self.assertRedirects(self.client.get(url), f"/admin/login/?next={url}")
        call_command("seed_shop", stdout=StringIO())
        self.client.force_login(User.objects.get(username="viewer"))
        self.assertContains(self.client.get(url), "Sencha")

    def test_an_export_is_requested_made_and_downloaded(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        self.client.post(reverse("shop:stock"))
        assert self.queued() == {"reports": Counts(1, 0, 0, 0)}
        export = StockExport.objects.get()
        download = reverse("shop:export", args=[export.pk])
        assert self.client.get(download).status_code == 404
        with self.settings(EXPORT_DIR=settings.DATA_DIR / "test-exports"):
            assert tasks.export_stock(export.pk) == {"file": f"stock-{export.pk}.csv", "rows": 1}
            lines = b"".join(self.client.get(download)).decode().splitlines()
        assert lines == ["slug,name,price,stock", "sencha,Sencha,12.00,10"]


class TaskTests(ShopTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.placed = self.order()
        self.placed.save()

    def test_each_mail_is_sent_once_however_often_its_task_runs(self) -> None:
        for task in (tasks.send_confirmation, tasks.send_confirmation, tasks.send_reminder, tasks.send_reminder):
            assert task(self.placed.pk) == "Sent to ada@example.com"
        assert [message.subject for message in mail.outbox] == [
            f"Your order {self.placed.number}",
            "How is your Sencha?",
        ]

    def test_every_third_payment_succeeds_on_the_second_attempt(self) -> None:
        third = Order(pk=3, product=self.product, total=12)
        with self.assertRaises(gateway.GatewayTimeout):
            gateway.capture(third, attempt=1)
        gateway.capture(third, attempt=2)

    def test_some_payments_are_always_refused(self) -> None:
        Product.objects.update(payment_refused=True)
        with self.assertRaises(gateway.PaymentRefused):
            tasks.capture_payment(SimpleNamespace(attempt=3), self.placed.pk)
        self.placed.refresh_from_db()
        assert self.placed.paid_at is None

    async def test_the_warehouse_gives_a_parcel_its_number_once(self) -> None:
        number = f"Parcel KL-{self.placed.pk:06d}"
        assert await tasks.notify_warehouse(self.placed.pk) == number
        assert await tasks.notify_warehouse(self.placed.pk) == number

    def test_the_reminder_waits(self) -> None:
        with self.settings(REMINDER_AFTER=timedelta(days=7)):
            orders.place(self.order())
        [(result_id, due)] = Inspector(self.broker).listing("mail", "scheduled")
        record = Inspector(self.broker).record(result_id)
        assert due - record.head.enqueued_at == 7 * 24 * 60 * 60 * 1000


@override_settings(RECEIPTS=True)
class ReceiptTests(ShopTestCase):
    def setUp(self) -> None:
        super().setUp()
        orders.place(self.order(2))
        self.placed = Order.objects.get()
        self.page = self.placed.get_absolute_url()

    def pay(self) -> Step:
        tasks.capture_payment(SimpleNamespace(attempt=2), self.placed.pk)
        return Step.objects.get(kind=Step.Kind.RECEIPT)

    def file(self, html: str = "<h1>Receipt</h1>") -> None:
        context = SimpleNamespace(task_result=tasks.file_receipt.enqueue(self.placed.number, html))
        assert tasks.file_receipt(context, self.placed.number, html) == "Filed"

    def test_a_receipt_is_ordered_once_it_is_paid(self) -> None:
        assert "receipts" not in self.queued()
        step = self.pay()
        assert self.queued()["receipts"] == Counts(1, 0, 0, 0)
        [receipt] = tasks.render_receipt.get_result(step.result_id).args
        assert receipt.pop("paid_at").startswith("20")
        price = {"quantity": 2, "price": "12.00", "total": "24.00"}
        assert receipt == {"number": self.placed.number, "name": "Ada", "product": "Sencha", **price}
        assert progress_of_step(step) == Progress("waiting")

    def test_a_payment_that_runs_twice_orders_one_receipt(self) -> None:
        assert self.pay() == self.pay()
        assert self.queued()["receipts"] == Counts(1, 0, 0, 0)

    def test_a_receipt_is_ordered_by_the_next_attempt_where_redis_was_away(self) -> None:
        with override_settings(TASKS=changed_tasks(url="redis://127.0.0.1:1/0")), self.assertRaises(EnqueueError):
            self.pay()
        assert not Step.objects.filter(kind=Step.Kind.RECEIPT).exists()
        assert progress_of_step(self.pay()) == Progress("waiting")

    def test_no_receipt_is_ordered_where_nobody_makes_them(self) -> None:
        with self.settings(RECEIPTS=False), self.assertRaises(Step.DoesNotExist):
            self.pay()
        assert "receipts" not in self.queued()

    def test_a_receipt_is_filed_once_and_linked(self) -> None:
        self.pay()
        self.assertNotContains(self.client.get(self.page), "View the receipt")
        assert self.client.get(f"{self.page}receipt/").status_code == 404
        self.file("<h1>The first</h1>")
        self.file("<h1>The second</h1>")
        assert Receipt.objects.get().html == "<h1>The first</h1>"
        self.assertContains(self.client.get(self.page), f'href="{self.page}receipt/"')

    def test_a_receipt_may_hold_anything_and_does_nothing(self) -> None:
        self.file("<script>alert(1)</script>")
        response = self.client.get(f"{self.page}receipt/")
        assert response.content == b"<script>alert(1)</script>"
        assert response["Content-Type"] == "text/html; charset=utf-8"
        assert response["X-Content-Type-Options"] == "nosniff"
        policy = response["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "sandbox"} <= set(policy)


class SeedTests(ShopTestCase):
    def test_a_second_run_changes_nothing(self) -> None:
        for _ in range(2):
            call_command("seed_shop", stdout=StringIO())
            Product.objects.filter(slug="assam").update(stock=1)
        assert Product.objects.count() == 8
        assert User.objects.count() == 2

    def test_the_viewer_may_look_and_nothing_else(self) -> None:
        call_command("seed_shop", stdout=StringIO())
        viewer = User.objects.get(username="viewer")
        assert viewer.has_perms(["shop.view_order", "django_taskq.view_deadletter"])
        assert all(".view_" in permission for permission in viewer.get_all_permissions())
