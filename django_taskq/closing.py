"""What a person ends, or begins again: rows say so first, then Redis is told.

So nothing that pushes rows brings back what was ended here, however soon Redis forgets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

from django.db import models, router, transaction
from django.utils import timezone

from . import fence, rows
from .broker.inspector import Inspector
from .broker.records import Record, State
from .broker.summaries import Summary
from .models import TaskRecord
from .outbox import RELAY_DELAY, record_aliases
from .results import moment
from .worker.endings import NotRecorded

Status = TaskRecord.Status

#: Bytes of a record that are read to find out where its rows are.
_HEAD_BYTES = 1024
#: What rows say of which a person decides. A letter whose discard never reached Redis is still dead there.
_RETRIED = (Status.DEAD, Status.CANCELLED)
_ENDED = (Status.WAITING, Status.RUNNING, Status.DEAD)
#: Words for records whose rows say by now what they should.
_ACCEPTED = {"DONE", "ASKED", "ALREADY"}

Places = Mapping[str, Sequence[str]]


class Closing:
    """Retries, discards and cancels records by their ids, in pages of a thousand at most.

    All of it raises `NotRecorded` while a database takes no rows, and has then told Redis nothing. When it is Redis
    that fails, rows say what was wanted, and doing it again is safe.
    """

    def __init__(self, inspector: Inspector, keeps_rows: bool) -> None:
        self._inspector = inspector
        self._broker = inspector.broker
        self._keeps_rows = keeps_rows

    def retry(self, letters: Sequence[tuple[str, int]]) -> list[str]:
        """Give dead letters (id, died_at) new attempts; return the script's word for each."""
        places = self._places([record_id for record_id, _ in letters], lost=False)
        _change(places, _RETRIED, {**_open(Status.WAITING), "attempts": 0, "started_at": None})
        words = self._broker.requeue([(record_id, died_at, 0) for record_id, died_at in letters])
        self._put_back(letters, words, places, Status.WAITING)
        return words

    def discard(self, letters: Sequence[tuple[str, int]]) -> list[str]:
        """Cancel dead letters (id, died_at); return the script's word for each."""
        return self._end(letters, lambda: self._broker.discard(letters))

    def cancel(self, ids: Sequence[str]) -> list[str]:
        """Cancel what waits, and ask what runs to stop; return the script's word for each.

        Of a record that Redis doesn't hold, the rows are closed all the same.
        """
        return self._end([(record_id, 0) for record_id in ids], lambda: self._broker.cancel(ids))

    def _end(self, records: Sequence[tuple[str, int]], tell: Callable[[], list[str]]) -> list[str]:
        places = self._places([record_id for record_id, _ in records], lost=True)
        _change(places, _ENDED, _closed(Status.CANCELLED))
        words = tell()
        self._put_back(records, words, places, Status.CANCELLED)
        return words

    def _places(self, ids: Sequence[str], *, lost: bool) -> Places:
        """Return the ids by the databases that may hold their rows; `lost` takes those in that Redis doesn't hold."""
        places: dict[str, list[str]] = {}
        for summary in self._inspector.summaries(ids, _HEAD_BYTES)[1]:
            for alias in self._aliases(summary, lost):
                places.setdefault(alias, []).append(summary.id)
        return places

    def _aliases(self, summary: Summary, lost: bool) -> Iterable[str]:
        if not summary.task:
            return record_aliases(self._keeps_rows) if lost else ()
        outbox = summary.head.record_alias
        if outbox is None:
            return (router.db_for_write(TaskRecord),) if self._keeps_rows else ()
        effects = summary.document.get("atomic")
        if effects is None and summary.task_bytes > len(summary.task):
            return {outbox, *record_aliases(self._keeps_rows)}  # it may stand behind the cut
        return {outbox, effects or outbox}

    def _put_back(
        self, asked: Sequence[tuple[str, int]], words: Sequence[str], places: Places, written: Status
    ) -> None:
        """Let the rows of records that Redis refused say what it holds."""
        refused = [record_id for (record_id, _), word in zip(asked, words, strict=True) if word not in _ACCEPTED]
        for record in self._inspector.records(refused):
            said = None if record is None else _said(record, written)
            if record is not None and said is not None:
                _change({alias: [record.id] for alias, ids in places.items() if record.id in ids}, (written,), said)


def _change(places: Places, before: Sequence[Status], columns: Mapping[str, Any]) -> None:
    """Change rows that say one of these statuses, in all databases or, when one of them fails, in none."""
    with _refusals(places):
        with ExitStack() as transactions:
            for alias in sorted(places):
                transactions.enter_context(transaction.atomic(using=alias))
                ids = sorted(places[alias])
                for start in range(0, len(ids), fence.MOST_IDS):
                    page = TaskRecord.objects.using(alias).filter(
                        pk__in=ids[start : start + fence.MOST_IDS], status__in=before
                    )
                    page.update(**columns)
        for alias in places:
            fence.commit(alias)


def _said(record: Record, written: Status) -> dict[str, Any] | None:
    """Return what a row says of a record as Redis holds it; None where what was written is to stay."""
    if record.state is State.WAITING or record.state is State.LEASED:
        if written is Status.WAITING or record.cancel_requested:
            return None
        return _open(Status.RUNNING if record.state is State.LEASED else Status.WAITING)
    if record.state is State.CANCELLED:
        return _closed(Status.CANCELLED)
    if not record.state.is_known:
        return None
    row = rows.from_record(record, "")
    closed = _closed(Status(row.status), None if row.finished_at is None else moment(row.finished_at))
    if record.state is State.DEAD:
        began = None if row.started_at is None else moment(row.started_at)
        return closed | {"attempts": row.attempts, "started_at": began}
    return closed | {name: getattr(row, name) for name in ("token", "attempts", "worker", "result", "history")}


def _open(status: Status) -> dict[str, Any]:
    asked_at = models.Case(models.When(is_outbox=True, then=models.Value(timezone.now() + RELAY_DELAY)), default=None)
    return {"status": status, "finished_at": None, "repair_at": asked_at}


def _closed(status: Status, finished_at: datetime | None = None) -> dict[str, Any]:
    return {"status": status, "finished_at": finished_at or timezone.now(), "repair_at": None}


@contextmanager
def _refusals(places: Places) -> Iterator[None]:
    """Raise `NotRecorded` for whatever a database says."""
    try:
        yield
    except Exception as error:
        raise NotRecorded([record_id for ids in places.values() for record_id in ids], error) from error
