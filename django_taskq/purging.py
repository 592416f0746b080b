"""Cancel all that waits in a queue, page by page; to do it again is safe."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.utils import timezone

from .broker.broker import BATCH_RECORDS
from .broker.inspector import Inspector
from .broker.listing import oldest_first
from .closing import Closing
from .models import TaskRecord
from .outbox import OPEN, record_aliases

#: Rows that are looked at in one statement.
_PAGE = 500
#: Words for records that wait, or of which Redis holds nothing that is in a queue: their rows would bring them back.
_MEANT = ("waiting", "GONE", "LOST")


def purge(inspector: Inspector, queue: str, backend: str, keeps_records: bool) -> Iterator[list[str]]:
    """Cancel what waits in a queue now; yield a word for each of a page, as `Closing.cancel` does.

    What rows know of comes last: it wasn't pushed when Redis was asked what waits, or Redis has lost it.
    """
    began = timezone.now()
    closing = Closing(inspector, keeps_records)
    # What becomes due meanwhile goes from the first to the second.
    for place in ("scheduled", "ready"):
        for ids in _pages(inspector, queue, place):
            yield closing.cancel(ids)
    for alias in sorted(record_aliases(keeps_records)):
        for ids in _rows(alias, backend, queue, began):
            words = inspector.broker.states(ids)
            meant = [record_id for record_id, word in zip(ids, words, strict=True) if word in _MEANT]
            if meant:
                yield closing.cancel(meant)


def has_rows(queue: str, backend: str, keeps_records: bool) -> bool:
    """Tell whether rows know of tasks in a queue that haven't ended."""
    now = timezone.now()
    return any(next(_rows(alias, backend, queue, now), []) for alias in record_aliases(keeps_records))


def _pages(inspector: Inspector, queue: str, place: str) -> Iterator[list[str]]:
    """Yield the ids of one place as they are cancelled; what comes behind its present end isn't meant."""
    last = inspector.listing(queue, place)[-1:]
    after = None
    while last and (page := oldest_first(inspector.broker, place, queue, after, last[0][1], BATCH_RECORDS)):
        yield [entry.id for entry in page]
        after = (page[-1].score, page[-1].id)


def _rows(alias: str, backend: str, queue: str, until: datetime) -> Iterator[list[str]]:
    """Yield the ids of a queue's open rows that were written until then."""
    meant = {"backend": backend, "queue": queue, "repair_at__isnull": False, "status__in": OPEN}
    rows = TaskRecord.objects.using(alias).filter(**meant, enqueued_at__lte=until).order_by("pk")
    after = ""
    while page := [*rows.filter(pk__gt=after).values_list("pk", flat=True)[:_PAGE]]:
        yield page
        after = page[-1]
