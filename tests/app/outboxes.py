"""What the tests of the outbox share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from django.db import connections
from django.utils import timezone

from django_taskq.backend import RedisBackend
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.models import TaskRecord
from django_taskq.producer import Producer, shared_producer
from django_taskq.repair import Repair
from tests.app import tasks

kept = replace(tasks.add, outbox=True)
kept_elsewhere = replace(tasks.add, outbox="other")


def row_of(result, alias="default"):
    """Return the row of a task."""
    return TaskRecord.objects.using(alias).get(pk=result.id)


def duty(backend: RedisBackend) -> Repair:
    """Return what a worker does about the outbox."""
    return Repair(backend.alias, type(backend), backend.conf, backend.broker)


def make_due(alias="default", ago=timedelta(seconds=1)):
    """Let all that is open be due, by every clock."""
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
        yield BrokerUnavailable("away", maybe_executed=False)

    producer: Producer = shared_producer(backend.conf.url, backend.conf.namespace)
    known = producer._pages
    producer._pages = fail
    try:
        yield
    finally:
        producer._pages = known


def blocked(alias):
    """Let a database refuse all queries."""

    def refuse(execute, sql, *given):
        raise AssertionError(sql)

    return connections[alias].execute_wrapper(refuse)


def unpushed(backend, made=kept, *args, **kwargs):
    """Return the result of a task that Redis wasn't told of."""
    with no_push(backend):
        return made.enqueue(*args or (1,), **kwargs)


def word(backend, result):
    """Return what Redis says of a task."""
    return backend.broker.states([result.id])[0]


def repair_in(result, alias="default"):
    """Return how far away the next question about a row is."""
    return row_of(result, alias).repair_at - timezone.now()


def is_about(found, wanted):
    """Tell whether two durations are about the same."""
    return abs(found - wanted) < timedelta(seconds=20)
