"""Old rows are deleted in small batches, by several at a time, while others are written."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_taskq import pruning
from django_taskq.models import TaskRecord
from django_taskq.pruning import Pruned, Pruning, prune
from django_taskq.results import milliseconds_of
from django_taskq.writing import write_finished

from .conftest import ALIAS, nothing_commits_by_itself, on_each
from .made import lease, row, succeeded

DAY = 86_400
COLUMNS = [field.column for field in TaskRecord._meta.concrete_fields if field.column != "id"]


def keep(days, count=1, **fields):
    """Write rows that ended so many days ago."""
    said = {"finished_at": milliseconds_of(timezone.now() - timedelta(days=days)), **fields}
    kept = [row(succeeded(lease()))._replace(**said) for _ in range(count)]
    write_finished(kept)
    return [each.id for each in kept]


def multiply(times):
    """Double the rows so many times, in the database itself."""
    connection = connections[ALIAS]
    new_id = "CONCAT(id, %s)" if connection.vendor == "mysql" else "id || %s"
    columns = ", ".join(COLUMNS)
    statement = (
        f"INSERT INTO django_taskq_taskrecord (id, {columns}) SELECT {new_id}, {columns} FROM django_taskq_taskrecord"
    )
    with connection.cursor() as cursor:
        for letter in "abcdefghijklmnop"[:times]:
            cursor.execute(statement, [letter])


def close():
    connections[ALIAS].close()


@on_each()
def test_only_rows_that_ended_long_enough_ago_are_deleted(database):
    keep(days=31, count=3)
    kept = keep(days=29) + keep(days=31, backend="other") + keep(days=0, status="waiting", finished_at=None)
    assert prune("default", 30 * DAY) == Pruned(3, True)
    assert {found.pk for found in TaskRecord.objects.all()} == set(kept)
    assert prune("default", 30 * DAY) == Pruned(0, True)


@on_each()
def test_they_are_deleted_where_nothing_commits_by_itself(database):
    keep(days=31, count=3)
    with nothing_commits_by_itself():
        assert prune("default", 30 * DAY) == Pruned(3, True)
    assert not TaskRecord.objects.exists()


@on_each()
def test_a_batch_is_a_transaction_of_its_own(database):
    keep(days=2, count=25)
    with CaptureQueriesContext(connections[database]) as queries:
        assert prune("default", DAY, batch=10) == Pruned(25, True)
    deletes = [query["sql"] for query in queries if query["sql"].startswith("DELETE")]
    assert len(deletes) == 3
    assert all(delete.count(",") < 10 for delete in deletes)


@on_each()
def test_it_stops_in_time_and_goes_on_later(database):
    keep(days=2, count=25)
    assert prune("default", DAY, batch=10, seconds=0) == Pruned(10, False)
    assert prune("default", DAY, batch=10, seconds=0) == Pruned(10, False)
    assert prune("default", DAY, batch=10, seconds=0) == Pruned(5, True)


@on_each()
def test_a_row_that_was_written_anew_meanwhile_is_kept(database, monkeypatch):
    (old,) = keep(days=2)
    real = pruning._delete_batch

    def written_in_between(rows, *args):
        listed = list(rows.values_list("pk", flat=True))
        TaskRecord.objects.filter(pk__in=listed).update(finished_at=timezone.now())
        return real(rows, *args)

    monkeypatch.setattr(pruning, "_delete_batch", written_in_between)
    assert prune("default", DAY) == Pruned(0, True)
    assert TaskRecord.objects.filter(pk=old).exists()


@on_each()
def test_the_old_rows_are_found_on_an_index(database):
    keep(days=2, count=20)
    multiply(6)
    connection = connections[database]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE django_taskq_taskrecord" if connection.vendor == "mysql" else "ANALYZE")
    old = TaskRecord.objects.filter(backend="default", finished_at__lt=timezone.now() - timedelta(days=1))
    assert "taskq_backend_finished" in old.order_by("finished_at").values_list("pk")[:100].explain()


@on_each("postgresql", "mariadb")
def test_several_delete_each_row_once(database):
    keep(days=2, count=100)
    multiply(4)

    def delete(_):
        try:
            return prune("default", DAY, batch=50).deleted
        finally:
            close()

    with ThreadPoolExecutor(3) as threads:
        assert sum(threads.map(delete, range(3))) == 1600
    assert not TaskRecord.objects.exists()


@on_each()
@pytest.mark.slow
def test_c81_old_rows_go_while_new_ones_come(database):
    keep(days=2, count=250)
    multiply(7)
    total = TaskRecord.objects.count()
    written, longest, done = [], [0.0], threading.Event()

    def write():
        try:
            while not done.is_set():
                batch = [row(succeeded(lease(), ended_at=int(time.time() * 1000))) for _ in range(20)]
                began = time.monotonic()
                write_finished(batch)
                longest[0] = max(longest[0], time.monotonic() - began)
                written.extend(each.id for each in batch)
        finally:
            close()

    writer = threading.Thread(target=write)
    writer.start()
    passes = []
    try:
        while not passes or not passes[-1].is_done:
            passes.append(prune("default", DAY, seconds=0.05))
    finally:
        done.set()
        writer.join(30)
    assert sum(each.deleted for each in passes) == total == 32_000
    assert len(passes) > 1
    assert set(TaskRecord.objects.values_list("pk", flat=True)) == set(written)
    assert longest[0] < 5


def test_a_worker_deletes_now_and_then(database):
    keep(days=2, count=3)
    pause = Pruning("default", DAY).work()
    assert connections[database].connection is None
    assert not TaskRecord.objects.exists()
    assert 0 < pause <= pruning.LONGEST_INTERVAL


def test_a_worker_goes_on_soon_when_there_is_more(database, monkeypatch):
    monkeypatch.setattr(pruning, "PASS", 0)
    keep(days=2, count=pruning.BATCH + 1)
    assert Pruning("default", DAY).work() <= pruning.PAUSE
    assert TaskRecord.objects.count() == 1


def test_a_worker_whose_database_is_away_says_so_and_waits(database, caplog):
    with connections[database].cursor() as cursor:
        cursor.execute("DROP TABLE django_taskq_taskrecord")
    assert Pruning("default", DAY).work() > 1
    assert "Old rows can't be deleted now" in caplog.text
