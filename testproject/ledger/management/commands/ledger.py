"""Charge orders with each guard while every lease is lost once, and print what the ledger says."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.db.models import Count

from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import AttemptError, State
from django_taskq.compat import task_backends
from ledger.models import Charge, Fence
from ledger.tasks import AFTER, BEFORE, GUARDS, stands_still

#: Seconds that all charges of one guard may take.
PATIENCE = 60
LOST = AttemptError("django_taskq.LeaseExpired", "lease expired", reason="lease expired").to_json()


class Command(BaseCommand):
    help = "Charge orders under forced lease loss: with no guard, a fencing token, an idempotency key, and atomic=True."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--orders", type=int, default=20, metavar="N", help="orders for each guard; default 20")

    def handle(self, *, orders: int, **options) -> None:
        self.inspector = Inspector(task_backends["ledger"].broker)
        for model in (Charge, Fence):
            model.objects.all().delete()
        worker = start_worker(threads=orders)
        try:
            for name in GUARDS:
                self.charge(name, orders, worker)
        finally:
            worker.terminate()
            worker.wait(30)
        self.report(orders)

    def charge(self, name: str, orders: int, worker: subprocess.Popen[bytes]) -> None:
        """Enqueue a charge for each order, take away each first lease, and wait until all have succeeded."""
        task, series = GUARDS[name][1], time.time_ns()
        with transaction.atomic():
            results = [
                task.using(idempotency_key=f"{name}-{order}-{series}").enqueue(order, AFTER if order % 2 else BEFORE)
                for order in range(orders)
            ]
        pending = {result.id: False for result in results}
        deadline = time.monotonic() + PATIENCE
        while pending:
            if time.monotonic() > deadline or worker.poll() is not None:
                raise CommandError(f"{len(pending)} charges of {name!r} did not come to an end.")
            for record in self.inspector.records([*pending]):
                if record.state is State.LEASED and not pending[record.id] and stands_still(record.id).exists():
                    stands_still(record.id).unlink()
                    # What a reaper does with a lease that has lapsed: another attempt may begin while this one runs.
                    held = SimpleNamespace(id=record.id, queue=record.head.queue, token=record.token)
                    self.inspector.broker.retry(held, 0, LOST)
                    pending[record.id] = True
                elif record.state is State.SUCCEEDED:
                    del pending[record.id]
            time.sleep(0.02)

    def report(self, orders: int) -> None:
        self.stdout.write(f"{'guard':<42}{'orders':>8}{'charges':>9}{'charged twice':>15}")
        for name, (what, _) in GUARDS.items():
            by_order = Charge.objects.filter(guard=name).values("order").annotate(times=Count("pk"))
            charges = sum(each["times"] for each in by_order)
            twice = sum(each["times"] > 1 for each in by_order)
            self.stdout.write(f"{what:<42}{orders:>8}{charges:>9}{twice:>15}")


def start_worker(threads: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, sys.argv[0], "runtaskworker", "--backend", "ledger", "--no-reload", "--verbosity", "0"]
    # Two children, so that a second attempt need not run beside the first.
    # It says of each lease that was lost what it makes of it; here that is nobody's trouble.
    return subprocess.Popen([*command, "--processes", "2", "--threads", str(threads)], stderr=subprocess.DEVNULL)
