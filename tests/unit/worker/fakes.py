"""Stand-ins for Redis and for Django, for tests of the worker's parts."""

from __future__ import annotations

import threading

from django_taskq.broker.envelope import Envelope
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.records import Claimed, Lease
from django_taskq.worker.outcomes import Succeeded


def make_lease(number=1, *, attempt=1, deadline=float("inf"), queue="default", **envelope):
    task = b"1700000000000 0 %s\n\n%s" % (queue.encode(), Envelope("jobs.add", **envelope).to_bytes())
    return Lease(f"id{number}", queue, 1000 + number, attempt, 0, None, task, 1700000000000, deadline)


class FakeBroker:
    """Hands out the leases that it was given, and keeps what it was told."""

    def __init__(self, *leases):
        self.ready = list(leases)
        self.settled = []
        self.claims = []
        self.armed = []
        self.markers = []
        self.is_away = False
        self.woken = threading.Event()
        self.answers = {}
        self.next_due_ms = None

    def exchange(self, settlements, claim):
        if claim is not None:
            self.claims.append(claim)
        if self.is_away:
            raise BrokerUnavailable("away", maybe_executed=True)
        self.settled += settlements
        words = [self.answers.get(each.lease.id, "DONE") for each in settlements]
        if claim is None:
            return words, None
        leases, self.ready = self.ready[: claim.count], self.ready[claim.count :]
        return words, Claimed(leases, self.next_due_ms)

    def wait(self, queues, seconds):
        if not self.woken.wait(seconds):
            return None
        self.woken.clear()
        return queues[0]

    def arm(self, queue):
        self.armed.append(queue)

    def wake(self, *leases):
        self.ready += leases
        self.woken.set()

    def hastier(self, timeout):
        return self

    def renew(self, leases, lease_ms):
        return [self.answers.get(record_id, "OK") for record_id, _, _ in leases]


class FakeApplication:
    """Runs `body(lease, control)` as every task."""

    rows = None
    duties = {}

    def __init__(self, broker, body=lambda lease, control: Succeeded(b"{}"), coroutine=False):
        self.broker = broker
        self._body = body
        self._coroutine = coroutine
        self.told = []

    def is_coroutine(self, lease):
        return self._coroutine

    def perform(self, lease, control):
        return self._body(lease, control)

    async def aperform(self, lease, control):
        return await self._body(lease, control)

    def buried(self, lease, error):
        self.told.append((lease.id, error))
