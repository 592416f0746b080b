"""What the tests of the outbox share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.utils import timezone

from django_taskq.backend import RedisBackend
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.models import TaskRecord
from django_taskq.producer import Producer, shared_producer
from django_taskq.repair import Repair


def row_of(result, alias="default"):
    """Return the row of a task."""
    return TaskRecord.objects.using(alias).get(pk=result.id)


def duty(backend: RedisBackend) -> Repair:
    """Return what a worker does about the outbox."""
    return Repair(backend.alias, type(backend), backend.conf, backend.broker)


def make_due(alias="default", ago=timedelta(0)):
    """Let all that is open be due now."""
    rows = TaskRecord.objects.using(alias).filter(repair_at__isnull=False)
    return rows.update(repair_at=timezone.now() - ago)


def repair(backend, alias="default"):
    """Let a worker ask about all that is open."""
    make_due(alias)
    return duty(backend).work()


@contextmanager
def no_push(backend: RedisBackend) -> Iterator[None]:
    """Let nothing reach Redis, as when it is away."""

    def fail(records):
        raise BrokerUnavailable("away", maybe_executed=False)

    producer: Producer = shared_producer(backend.conf.url, backend.conf.namespace)
    known = producer._enqueue
    producer._enqueue = fail
    try:
        yield
    finally:
        producer._enqueue = known
