"""The rows of dead letters that a person retries or discards: changed before Redis is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import router, transaction

from .models import TaskRecord
from .worker.endings import NotRecorded

#: Ids in one statement; SQLite takes only so many.
_MOST = 500


def leave(ids: Sequence[str], status: TaskRecord.Status) -> None:
    """Let rows that say `dead` say another status, or raise `NotRecorded` and change none."""
    _change(ids, TaskRecord.Status.DEAD, status)


def put_back(ids: Sequence[str], status: TaskRecord.Status) -> None:
    """Let rows say `dead` that were made to say another status."""
    _change(ids, status, TaskRecord.Status.DEAD)


def _change(ids: Sequence[str], before: TaskRecord.Status, after: TaskRecord.Status) -> None:
    with _said(ids), transaction.atomic(using=(alias := router.db_for_write(TaskRecord))):
        for start in range(0, len(ids), _MOST):
            found = TaskRecord.objects.using(alias).filter(pk__in=ids[start : start + _MOST], status=before)
            found.update(status=after)


@contextmanager
def _said(ids: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise NotRecorded(ids, error) from error
