"""Push records to Redis: one producer for each process and place, whichever thread's backend asks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.signals import setting_changed
from django.dispatch import receiver

from .broker.broker import Broker
from .broker.enqueueing import Page
from .broker.exceptions import BrokerUnavailable, ConfigurationError, EnqueueError, OutOfMemory, TaskqError
from .broker.records import Enqueued, NewRecord

#: Seconds in which, after Redis couldn't be reached, nobody else waits to find out.
OUTAGE_PAUSE = 1.0


class Producer:
    """Stores records through one broker; what can't be stored becomes an `EnqueueError`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._outage: BrokerUnavailable | None = None
        self._outage_ends = 0.0  # On the monotonic clock.

    def push(self, records: Sequence[NewRecord]) -> Iterator[Enqueued]:
        """Yield what became of each record, in their order.

        Raise `EnqueueError` with the ids of those that Redis didn't confirm.
        """
        confirmed = 0
        cause: TaskqError | None = None
        maybe_stored = False
        for page in self._pages(records):
            if isinstance(page, TaskqError):
                cause = cause or page
                maybe_stored = maybe_stored or _maybe_executed(page)
            elif cause is not None:
                maybe_stored = True  # This page was on its way when that before it failed.
            else:
                confirmed += len(page)
                yield from page
        if cause is not None:
            ids = [record.id for record in records[confirmed:]]
            raise EnqueueError(ids, maybe_stored=maybe_stored, cause=cause) from cause

    def _pages(self, records: Sequence[NewRecord]) -> Iterator[Page]:
        if self._outage is not None and time.monotonic() < self._outage_ends:
            yield BrokerUnavailable(f"Redis could not be reached a moment ago: {self._outage}", maybe_executed=False)
            return
        for page in self.broker.enqueue_pages(records):
            if isinstance(page, BrokerUnavailable):
                self._outage, self._outage_ends = page, time.monotonic() + OUTAGE_PAUSE
            yield page


def _maybe_executed(error: TaskqError) -> bool:
    return getattr(error, "maybe_executed", not isinstance(error, OutOfMemory | ConfigurationError))


_producers: dict[tuple[str, str], Producer] = {}


def shared_producer(url: str, namespace: str) -> Producer:
    """Return this process's producer for a place; Django makes a backend for each thread, we no connections."""
    producer = _producers.get((url, namespace))
    if producer is None:
        # Two threads may both make one: the first stays, and neither has connected.
        producer = _producers.setdefault((url, namespace), Producer(Broker.from_url(url, namespace)))
    return producer


@receiver(setting_changed)
def _forget_producers(*, setting: str, **kwargs: Any) -> None:
    if setting == "TASKS":
        _producers.clear()


# A broker holds connections of its process, which a forked child must not use.
os.register_at_fork(after_in_child=_producers.clear)
