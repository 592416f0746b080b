"""Push records to Redis: one producer for each process and place, whichever thread's backend asks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.signals import setting_changed
from django.dispatch import receiver

from .broker.broker import BATCH_BYTES, BATCH_RECORDS, Broker
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
        """Yield what became of each record, in their order, a thousand in one round trip.

        Raise `EnqueueError` with the ids of those that Redis didn't confirm.
        """
        for start in range(0, len(records), BATCH_RECORDS):
            page = records[start : start + BATCH_RECORDS]
            try:
                enqueued = self._enqueue(page)
            except TaskqError as error:
                ids = [record.id for record in records[start:]]
                raise EnqueueError(ids, maybe_stored=_maybe_stored(page, error), cause=error) from error
            yield from enqueued

    def _enqueue(self, page: Sequence[NewRecord]) -> list[Enqueued]:
        if self._outage is not None and time.monotonic() < self._outage_ends:
            raise BrokerUnavailable(f"Redis could not be reached a moment ago: {self._outage}", maybe_executed=False)
        try:
            return self.broker.enqueue(page)
        except BrokerUnavailable as error:
            self._outage, self._outage_ends = error, time.monotonic() + OUTAGE_PAUSE
            raise


def _maybe_stored(page: Sequence[NewRecord], error: TaskqError) -> bool:
    """Tell whether some of a page may be in Redis; one of more than 1 MiB went there in several calls."""
    if sum(len(record.envelope) for record in page) > BATCH_BYTES:
        return True
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
