"""What the tests of atomic tasks share: leases that are claimed, lost and run in the test's own process."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest
from django.db import connections

from django_taskq import hygiene
from django_taskq.broker.records import AttemptError, Claim
from django_taskq.execution import Application
from django_taskq.models import TaskRecord
from django_taskq.worker.outcomes import Failed, settle
from tests.broker.helpers import lapse

from . import effects
from .engines import ISOLATED
from .made import CHILD

SERVERS = tuple(ISOLATED)
EVERYWHERE = ("sqlite-immediate", *SERVERS)
ONE_EACH = ("sqlite-immediate", "postgresql-committed", "mariadb-repeatable")
AGAIN = Failed(AttemptError("builtins.OSError"), 0)
_nonces = iter(range(1, 10**6))


class Control:
    """What a run knows of its lease."""

    child = CHILD
    lease_lost = False
    cancel_requested = False

    def limit(self):
        return nullcontext()

    alimit = limit


@pytest.fixture
def application(database, broker, monkeypatch):
    """Give what a child runs its tasks with."""
    monkeypatch.setattr(hygiene._thread, "is_connected", False)
    effects.meanwhile.clear()
    effects.create()
    return Application.connect("default")


@pytest.fixture
def claim(broker):
    """Give a function that claims what is ready, as one child."""

    def claim():
        (lease,) = broker.claim(Claim(CHILD, next(_nonces), 1, 30_000, ("default",))).leases
        return lease

    return claim


@pytest.fixture
def leased(application, claim):
    """Give a function that enqueues a task and claims it."""

    def leased(job, *args, **kwargs):
        job.enqueue(*args, **kwargs)
        return claim()

    return leased


@pytest.fixture
def lose(broker, claim):
    """Give a function that lets a lease lapse and a reaper give the record to another, and returns the new lease."""

    def lose(lease):
        lapse(broker, lease)
        assert settle(broker, lease, AGAIN, lapsed=True) == "DONE"
        return claim()

    return lose


@pytest.fixture
def run(application):
    """Give a function that runs a lease to its outcome."""
    return lambda lease: application.perform(lease, Control())


def in_thread(*steps):
    """Do each step in a thread of its own, all at once, and return what they return."""
    done = [None] * len(steps)

    def do(index, step):
        try:
            done[index] = step()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=do, args=pair) for pair in enumerate(steps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    return done


def row_of(lease, alias="records"):
    return TaskRecord.objects.using(alias).get(pk=lease.id)
