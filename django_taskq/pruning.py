"""Delete old rows: in small batches on an index, so that nobody waits long for a lock."""

from __future__ import annotations

import logging
import random
import time
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import OperationalError, connections, router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from .commit import ensure_autocommit
from .models import TaskRecord
from .outbox import record_aliases

logger = logging.getLogger("django_taskq.worker")

#: Rows that one transaction deletes.
BATCH = 500
#: Batches in a row that may fail, and seconds to wait after the first.
MOST_FAILURES, LOCK_PAUSE = 5, 0.05
#: Seconds for which one pass of a worker deletes, and its pause when that wasn't enough.
PASS, PAUSE = 1.0, 5.0
#: Seconds from one pass to the next: this share of the age at which rows are deleted, within bounds.
SHARE, SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 1.0, 600.0


class Pruned(NamedTuple):
    """How many rows were deleted, and whether all were that are old enough."""

    deleted: int
    is_done: bool


def prune(
    backend: str, older_than: float, *, database: str | None = None, batch: int = BATCH, seconds: float = float("inf")
) -> Pruned:
    """Delete the rows of tasks that ended more than `older_than` seconds ago, for so many `seconds` at most.

    They are those in one database, which the router names where the caller doesn't. Several may do it at the same
    time, and one that was ended goes on where it was.
    """
    stops_at = time.monotonic() + seconds
    ended_before = timezone.now() - timedelta(seconds=older_than)
    rows = TaskRecord.objects.using(database or router.db_for_write(TaskRecord))
    old = rows.filter(backend=backend, finished_at__lt=ended_before)
    ensure_autocommit(connections[rows.db])
    deleted, ended_from, failures = 0, None, 0
    while True:
        try:
            # Where the last batch ended: what it deleted stays in the index for a while.
            page, ended_from, found = _delete_batch(old, ended_from, batch)
        except OperationalError:  # a deadlock, most likely, which the other one survived
            failures += 1
            if failures >= MOST_FAILURES or connections[old.db].in_atomic_block:
                raise
            time.sleep(random.uniform(0, LOCK_PAUSE * failures))
            continue
        failures = 0
        deleted += page
        if found < batch:
            return Pruned(deleted, True)
        if time.monotonic() >= stops_at:
            return Pruned(deleted, False)


def _delete_batch(
    old: QuerySet[TaskRecord], ended_from: datetime | None, batch: int
) -> tuple[int, datetime | None, int]:
    """Delete the oldest rows; return how many, the end of the last, and how many were found."""
    page = old.order_by("finished_at")
    if ended_from is not None:
        page = page.filter(finished_at__gte=ended_from)
    # Rows that another one deletes just now are left to it, where the database can tell.
    skips = connections[old.db].features.has_select_for_update_skip_locked
    with transaction.atomic(using=old.db) if skips else nullcontext():
        if skips:
            page = page.select_for_update(skip_locked=True)
        found = list(page.values_list("pk", "finished_at")[:batch])
        # What is locked needs no second look, and MariaDB would lock more rows for it.
        rows = TaskRecord.objects.using(old.db) if skips else old
        deleted = rows.filter(pk__in=[key for key, _ in found]).delete()[0] if found else 0
    return deleted, found[-1][1] if found else ended_from, len(found)


class Pruning:
    """What a worker does about old rows, beside all others that do the same."""

    def __init__(self, backend: str, records_ttl: float, keeps_records: bool = True) -> None:
        self._backend = backend
        self._keeps_records = keeps_records
        self._records_ttl = records_ttl
        self._interval = min(max(records_ttl * SHARE, SHORTEST_INTERVAL), LONGEST_INTERVAL)

    def work(self) -> float:
        """Delete for a while in each database with rows, and return the seconds until the next pass."""
        is_done = [self._prune(alias) for alias in sorted(record_aliases(self._keeps_records))]
        return random.uniform(0.5, 1) * (self._interval if all(is_done) else PAUSE)

    def _prune(self, alias: str) -> bool:
        """Delete rows of one database; tell whether all are deleted that are old enough."""
        try:
            return prune(self._backend, self._records_ttl, database=alias, seconds=PASS).is_done
        except Exception as error:
            logger.warning("Old rows can't be deleted now: %s: %s", type(error).__name__, error)
            return True
        finally:
            if alias in connections:
                connections[alias].close()  # it isn't needed for a while
