"""Rows are written in batches, under the token of their lease."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_taskq.broker.records import AttemptError
from django_taskq.models import TaskRecord
from django_taskq.worker.endings import NotRecorded
from django_taskq.writing import write_finished

from .conftest import on_each
from .made import CHILD, NOON, failed, lease, row, stored, succeeded

ERROR = AttemptError("builtins.OSError", "no", "Traceback: no")


@on_each()
def test_a_row_says_what_its_record_said(database):
    held = lease()
    write_finished([row(succeeded(held, {"sum": 3}))])
    found = stored(held)
    assert (found.backend, found.task, found.queue, found.priority) == ("default", "tests.app.tasks.add", "mail", 10)
    assert (found.status, found.token, found.attempts, found.worker) == ("succeeded", NOON, 1, CHILD)
    assert (found.args, found.kwargs, found.result) == ([1], {"b": 2}, '{"sum":3}')
    assert found.idempotency_key == "order-1"
    assert found.enqueued_at == datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    assert found.started_at == found.last_attempted_at == datetime(2026, 11, 29, 12, 0, 1, tzinfo=UTC)
    assert found.finished_at == datetime(2026, 11, 29, 12, 0, 2, tzinfo=UTC)


@on_each()
def test_a_stale_token_changes_nothing(database):
    held = lease(token=NOON + 9)
    write_finished([row(succeeded(held))])
    before = TaskRecord.objects.filter(pk=held.id).values().get()
    write_finished([row(failed(lease(held.id, token=NOON + 5), ERROR, ended_at=NOON + 5000))])
    assert TaskRecord.objects.filter(pk=held.id).values().get() == before


@on_each()
@pytest.mark.parametrize("newer", [0, 1])
def test_a_token_at_least_as_high_replaces_the_whole_row(database, newer):
    held = lease(token=NOON + 5)
    write_finished([row(failed(held, ERROR))])
    write_finished([row(succeeded(lease(held.id, token=NOON + 5 + newer, attempt=2), ended_at=NOON + 5000))])
    found = stored(held)
    assert (found.status, found.token, found.attempts, found.result) == ("succeeded", NOON + 5 + newer, 2, "3")
    assert found.finished_at == datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC)
    assert "OSError" not in found.history


@on_each()
def test_new_stale_and_newer_rows_may_stand_in_one_batch(database):
    new, stale, newer = lease(), lease(), lease()
    write_finished([row(succeeded(each)) for each in (stale, newer)])
    write_finished(
        [
            row(failed(new, ERROR)),
            row(failed(lease(stale.id, token=NOON - 1), ERROR)),
            row(failed(lease(newer.id, token=NOON + 1), ERROR)),
        ]
    )
    assert [stored(each).status for each in (new, stale, newer)] == ["dead", "succeeded", "dead"]


@on_each()
def test_of_one_record_in_a_batch_the_newest_counts(database):
    held = lease()
    endings = [failed(lease(held.id, token=NOON + each), ERROR) for each in (1, 3, 2)]
    write_finished([row(ending) for ending in endings])
    assert stored(held).token == NOON + 3


@on_each()
def test_ids_that_differ_in_case_are_two(database):
    write_finished([row(succeeded(lease(each), each)) for each in ("abc", "ABC")])
    assert {found.pk: found.result for found in TaskRecord.objects.all()} == {"abc": '"abc"', "ABC": '"ABC"'}
    assert TaskRecord.objects.filter(pk="aBC").first() is None


@on_each()
@pytest.mark.parametrize("known", [0, 1])
def test_a_thousand_rows_take_one_statement(database, known):
    batch = [row(succeeded(lease())) for _ in range(1000)]
    write_finished(batch[:known])
    with CaptureQueriesContext(connections[database]) as queries:
        write_finished(batch)
    assert TaskRecord.objects.count() == 1000
    # SQLite takes only so many parameters in a statement, and PostgreSQL copies new rows only.
    most = -(-1000 // connections[database].ops.bulk_batch_size(TaskRecord._meta.concrete_fields, batch))
    assert len(queries) <= most + (known if connections[database].vendor == "postgresql" else 0)


@on_each("postgresql")
def test_new_rows_are_copied(database):
    with CaptureQueriesContext(connections[database]) as queries:
        write_finished([row(succeeded(lease())) for _ in range(3)])
    assert [query["sql"].split()[0] for query in queries] == ["COPY"]
    assert TaskRecord.objects.count() == 3


@on_each()
def test_texts_that_part_rows_and_columns_elsewhere_are_kept_as_they_are(database):
    names = ["a\tb", "a\nb\r\nc", "\\N", "\n\\.\n", "\\", "\\t\\", '"', "{NULL,}", ""]
    endings = [succeeded(lease(task=f"no head{name}".encode())) for name in names]
    with CaptureQueriesContext(connections[database]) as queries:
        write_finished([row(ending) for ending in endings])
    assert len(queries) == 1
    assert [stored(ending.lease).envelope for ending in endings] == [f"no head{name}" for name in names]


@on_each("postgresql")
def test_a_table_with_policies_for_its_rows_takes_them_in_one_statement_too(database):
    held = [lease(), lease()]
    with connections[database].cursor() as cursor:
        try:
            cursor.execute(
                "CREATE ROLE clerk; GRANT ALL ON django_taskq_taskrecord TO clerk; "
                "ALTER TABLE django_taskq_taskrecord ENABLE ROW LEVEL SECURITY; "
                "CREATE POLICY of_clerks ON django_taskq_taskrecord TO clerk USING (true); SET ROLE clerk"
            )
            with CaptureQueriesContext(connections[database]) as queries:
                write_finished([row(succeeded(each)) for each in held])
        finally:
            cursor.execute(
                "RESET ROLE; DROP POLICY of_clerks ON django_taskq_taskrecord; "
                "ALTER TABLE django_taskq_taskrecord DISABLE ROW LEVEL SECURITY; "
                "REVOKE ALL ON django_taskq_taskrecord FROM clerk; DROP ROLE clerk"
            )
    assert [query["sql"].split()[0] for query in queries] == ["COPY", "INSERT"]
    assert [stored(each).status for each in held] == ["succeeded", "succeeded"]


@on_each("postgresql")
def test_a_view_takes_them_in_one_statement_too(database):
    held = [lease() for _ in range(3)]
    with connections[database].cursor() as cursor:
        cursor.execute(
            "ALTER TABLE django_taskq_taskrecord RENAME TO elsewhere; "
            "CREATE VIEW django_taskq_taskrecord AS SELECT * FROM elsewhere"
        )
        try:
            with CaptureQueriesContext(connections[database]) as queries:
                write_finished([row(succeeded(each)) for each in held])
        finally:
            cursor.execute("DROP VIEW django_taskq_taskrecord; ALTER TABLE elsewhere RENAME TO django_taskq_taskrecord")
    assert [query["sql"].split()[0] for query in queries] == ["COPY", "INSERT"]
    assert [stored(each).status for each in held] == ["succeeded"] * 3


@on_each()
def test_no_connection_is_asked_whether_it_is_there(database, monkeypatch):
    monkeypatch.setattr(connections[database], "health_check_enabled", True)
    monkeypatch.setattr(connections[database], "is_usable", lambda: pytest.fail("asked"))
    held = [lease(), lease()]
    for each in held:
        write_finished([row(succeeded(each))])
    assert [stored(each).status for each in held] == ["succeeded", "succeeded"]


@on_each("postgresql")
def test_one_statement_serves_any_number_of_rows(database):
    seen = set()

    def watch(execute, sql, parameters, many, context):
        seen.add((sql, len(parameters)))
        return execute(sql, parameters, many, context)

    for count in (1, 300):
        known = [row(succeeded(lease())) for _ in range(count)]
        write_finished(known)
        with connections[database].execute_wrapper(watch):
            write_finished(known)
    assert len(seen) == 1


@on_each()
def test_the_latest_moment_is_kept_to_the_millisecond(database):
    held = lease()
    write_finished([row(succeeded(held, ended_at=253_370_764_799_999))])
    assert stored(held).finished_at == datetime(9998, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


@on_each()
def test_large_rows_are_written_in_statements_that_the_server_takes(database):
    batch = [row(succeeded(lease(), "é" * 999_000)) for _ in range(12)]
    write_finished(batch)
    assert TaskRecord.objects.count() == 12


@on_each("postgresql", "mariadb")
def test_writers_of_the_same_rows_end_with_the_newest_token(database):
    ids = [lease().id for _ in range(50)]

    def write(seed):
        shuffled = random.Random(seed)
        try:
            for _ in range(10):
                tokens = [(each, NOON + shuffled.randrange(1000)) for each in shuffled.sample(ids, 30)]
                write_finished([row(succeeded(lease(each, token=token), token)) for each, token in tokens])
                seen.extend(tokens)
        finally:
            connection.close()
            connections[database].close()

    seen = []
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    expected = {each: max(token for found, token in seen if found == each) for each, _ in seen}
    assert {found.pk: found.token for found in TaskRecord.objects.all()} == expected
    assert all(found.result == str(found.token) for found in TaskRecord.objects.all())


@on_each()
def test_without_its_table_nothing_is_written_and_the_rows_are_named(database):
    batch = [row(succeeded(lease())) for _ in range(5)]
    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE django_taskq_taskrecord RENAME TO elsewhere")
    try:
        with pytest.raises(NotRecorded) as caught:
            write_finished(batch)
    finally:
        with connections[database].cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_taskq_taskrecord")
    assert caught.value.ids == {each.id for each in batch}
    write_finished(batch)
    assert TaskRecord.objects.count() == 5


@on_each()
def test_inside_a_transaction_a_refused_row_spoils_nothing(database):
    good, bad = row(succeeded(lease())), row(succeeded(lease()))
    bad = bad._replace(worker="x" * 500 if connections[database].vendor != "sqlite" else "\udc80")
    with transaction.atomic(using=database):
        write_finished([good, bad])
    assert TaskRecord.objects.count() == 2


@on_each("postgresql")
def test_a_text_with_nul_shifts_no_text_of_another_row(database):
    batch = [row(succeeded(lease(), number)) for number in range(3)]
    batch[1] = batch[1]._replace(worker="a\0b")
    with pytest.raises(NotRecorded) as caught:
        write_finished(batch)
    assert caught.value.ids == {batch[1].id}
    assert {found.pk: found.result for found in TaskRecord.objects.all()} == {batch[0].id: "0", batch[2].id: "2"}
