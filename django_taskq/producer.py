"""Push records to Redis: one producer for each process and place, whichever thread's backend asks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.core.signals import setting_changed
from django.dispatch import receiver

from .broker.broker import Broker
from .broker.enqueueing import Page
from .broker.exceptions import BrokerUnavailable, EnqueueError, RequestError, TaskqError
from .broker.records import Enqueued, NewRecord

#: Seconds in which, after Redis couldn't be reached, nobody else waits to find out.
OUTAGE_PAUSE = 1.0


class Producer:
    """Stores records through one broker; what can't be stored becomes an `EnqueueError`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._outage: BrokerUnavailable | None = None
        self._outage_ends = 0.0  # On the monotonic clock.

    def push(self, records: Sequence[NewRecord]) -> Iterable[Enqueued]:
        """Return what became of each record, in their order.

        Raise `EnqueueError` with the ids of those that Redis didn't confirm; of several records, when those before
        were taken.
        """
        if len(records) > 1:
            return self._push_pages(records)
        (page,) = self._pages(records)
        if isinstance(page, TaskqError):
            raise EnqueueError([records[0].id], maybe_stored=_maybe_executed(page), cause=page) from page
        return page

    def _push_pages(self, records: Sequence[NewRecord]) -> Iterator[Enqueued]:
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

    def _pages(self, records: Sequence[NewRecord]) -> Iterable[Page]:
        if self._outage is not None and time.monotonic() < self._outage_ends:
            reason = f"Redis could not be reached a moment ago: {self._outage}"
            return [BrokerUnavailable(reason, maybe_executed=False)]
        return map(self._noted, self.broker.enqueue_pages(records))

    def _noted(self, page: Page) -> Page:
        """Return a page; when it says that Redis can't be reached, nobody else waits to find out."""
        if isinstance(page, BrokerUnavailable):
            self._outage, self._outage_ends = page, time.monotonic() + OUTAGE_PAUSE
        return page


def _maybe_executed(error: TaskqError) -> bool:
    return not isinstance(error, RequestError) or error.maybe_executed


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
