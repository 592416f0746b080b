"""A task with an outbox is a row of the caller's transaction; it reaches Redis after the commit, sooner or later."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models.signals import post_save
from django.db.transaction import TransactionManagementError, atomic
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_taskq import registry
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.settlements import Complete
from django_taskq.compat import InvalidTask, TaskResultDoesNotExist, TaskResultStatus
from django_taskq.models import TaskRecord
from django_taskq.outbox import backlog
from tests.app import tasks
from tests.app.outboxes import kept, kept_elsewhere, no_push, row_of
from tests.app.test_backend import claim
from tests.app.test_commit import every_path, rolled_back

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def count(alias="default"):
    return TaskRecord.objects.using(alias).count()


def is_stored(redis_client, result):
    return redis_client.exists(f"{{taskq}}:task:{result.id}") == 1


def commands(redis_client):
    """Return how many scripts Redis has run."""
    return redis_client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]


def test_a_row_is_part_of_the_transaction_and_the_task_is_pushed_after_its_commit(backend, redis_client, sent):
    with atomic():
        result = kept.using(priority=7, queue_name="mail", run_after=timedelta(hours=1)).enqueue(1, b=2)

        row = row_of(result)
        assert not is_stored(redis_client, result)
        assert (result.status, result.enqueued_at, sent) == (TaskResultStatus.READY, None, [])

    assert is_stored(redis_client, result)
    assert result.enqueued_at is not None
    assert [one for _, one, _ in sent] == [result]
    assert (row.backend, row.task, row.queue, row.priority) == ("default", "tests.app.tasks.add", "mail", 7)
    assert (row.status, row.token, row.attempts, row.is_outbox, row.delay_ms) == ("waiting", 0, 0, True, 3_600_000)
    assert (row.args, row.kwargs) == ([1], {"b": 2})
    assert row.repair_at - row.enqueued_at == timedelta(seconds=10)
    assert abs(timezone.now() - row.enqueued_at) < timedelta(minutes=1)


def test_redis_and_the_row_hold_the_same(backend, inspector):
    result = kept.using(idempotency_key="ü").enqueue("naïve 🚀 \0", b={"x": [1.5, None]})

    record = inspector.record(result.id)
    assert record.head.record_alias == "default"
    assert record.envelope_bytes == row_of(result).envelope.encode()
    assert row_of(result).idempotency_key == "ü"


@every_path
def test_a_row_is_rolled_back_with_all_else(backend, redis_client, path):
    with rolled_back():
        path(kept)
        assert count() > 0

    assert count() == 0
    assert redis_client.dbsize() == 0


@every_path
def test_a_row_dies_with_its_savepoint(backend, redis_client, path):
    with atomic():
        with rolled_back():
            path(kept)
        survivor = kept.enqueue(2)

    assert list(TaskRecord.objects.values_list("pk", flat=True)) == [survivor.id]
    assert redis_client.keys("*:task:*") == [f"{{taskq}}:task:{survivor.id}".encode()]


def test_without_a_transaction_the_row_is_there_before_the_task(backend, redis_client):
    with no_push(backend):
        result = kept.enqueue(1)
        assert row_of(result).status == "waiting"

    assert is_stored(redis_client, kept.enqueue(1))


@pytest.mark.parametrize("in_block", [True, False])
def test_it_costs_one_insert_and_no_round_trip_more(backend, redis_client, in_block):
    kept.enqueue(0)
    before = commands(redis_client)
    with CaptureQueriesContext(connection) as queries, atomic() if in_block else ExitStack():
        kept.enqueue(1)

    said = [query["sql"].split()[0] for query in queries.captured_queries]
    assert said == (["BEGIN", "INSERT", "COMMIT"] if in_block else ["INSERT"])
    assert commands(redis_client) - before == 1


def test_many_are_inserted_in_bulk(backend, redis_client):
    kept.enqueue(0)
    calls = [((number,), {}) for number in range(700)]
    before = commands(redis_client)
    tasks.add.using(queue_name="plain").enqueue_many(calls)
    usual = commands(redis_client) - before
    before += usual
    with CaptureQueriesContext(connection) as queries, atomic():
        results = kept.enqueue_many(calls)
        assert redis_client.zcard("{taskq}:queue:default:ready") == 1

    inserts = [query for query in queries.captured_queries if query["sql"].startswith("INSERT")]
    assert len(inserts) < 60  # SQLite takes only so many values
    assert len(queries) == len(inserts) + 2
    assert commands(redis_client) - before == usual
    assert count() == 701
    assert all(result.enqueued_at for result in results)


@every_path
def test_a_row_sends_no_signal_of_models_whose_receivers_may_enqueue(backend, path):
    def enqueue(**given):
        kept.enqueue(1)

    post_save.connect(enqueue)
    try:
        path(kept)
    finally:
        post_save.disconnect(enqueue)
    assert count() > 0


def test_many_are_inserted_together_or_not_at_all(backend, redis_client, monkeypatch):
    same = iter(["a", "b", "a"])
    monkeypatch.setattr("django_taskq.results.new_id", lambda: next(same))
    monkeypatch.setattr("django_taskq.outbox.BATCH_ROWS", 2)

    with pytest.raises(IntegrityError):
        kept.enqueue_many([((number,), {}) for number in range(3)])

    assert count() == 0
    assert redis_client.dbsize() == 0


def test_a_row_that_is_refused_leaves_nothing(backend, redis_client, monkeypatch):
    monkeypatch.setattr("django_taskq.results.new_id", lambda: "1")
    kept.enqueue(1)
    redis_client.flushall()

    with pytest.raises(IntegrityError), atomic():
        kept.enqueue(2)

    assert count() == 1
    assert redis_client.dbsize() == 0


def test_an_aenqueue_is_part_of_the_transaction_of_its_thread(backend, redis_client):
    with atomic():
        result = async_to_sync(kept.aenqueue)(1)
        assert row_of(result)
        assert not is_stored(redis_client, result)

    assert is_stored(redis_client, result)
    other = asyncio.run(kept.aenqueue(2))
    assert is_stored(redis_client, other)
    assert row_of(other)


def test_a_push_that_fails_is_said_once_and_raises_nothing(backend, redis_client, caplog):
    after = []
    with no_push(backend), caplog.at_level(logging.WARNING, "django_taskq"):
        with atomic():
            results = [kept.enqueue(1), kept.enqueue(2)]
            transaction.on_commit(lambda: after.append(1))
        results += kept.enqueue_many([((3,), {}), ((4,), {})])

    assert [(result.status, result.enqueued_at) for result in results] == [(TaskResultStatus.READY, None)] * 4
    assert after == [1]
    assert count() == 4
    assert len(caplog.records) == 1
    assert "A worker will push" in caplog.text

    kept.enqueue(5)
    caplog.clear()
    with no_push(backend):
        kept.enqueue(6)
    assert len(caplog.records) == 1


def test_the_result_of_a_task_that_is_not_pushed_yet_is_read_from_its_row(backend, redis_client, monkeypatch):
    with no_push(backend):
        one, other = kept.enqueue(1, b=2), kept_elsewhere.enqueue(3)

    monkeypatch.setattr(registry, "tasks", lambda: [tasks.add])
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(one.id)  # nothing that is declared here has rows
    monkeypatch.setattr(registry, "tasks", lambda: [kept, kept_elsewhere, tasks.stock])
    found = backend.get_result(one.id), backend.get_result(other.id)
    assert [(each.status, each.args, each.kwargs) for each in found] == [("READY", [1], {"b": 2}), ("READY", [3], {})]
    assert asyncio.run(backend.aget_result(one.id)).task.name == tasks.add.name


def test_of_the_rows_in_two_databases_the_one_that_has_ended_is_read(backend, monkeypatch):
    with no_push(backend):
        result = kept.enqueue(1)
    receipt = row_of(result)
    receipt.status, receipt.result, receipt.finished_at, receipt.is_outbox = "succeeded", "2", timezone.now(), False
    receipt.save(using="other", force_insert=True)
    monkeypatch.setattr(registry, "tasks", lambda: [kept, kept_elsewhere])

    found = backend.get_result(result.id)
    assert (found.status, found.return_value) == ("SUCCESSFUL", 2)


class TestWhileRedisIsAway:
    """Where the row of a task says that it has ended, it answers."""

    @pytest.fixture(autouse=True)
    def declared(self, monkeypatch):
        monkeypatch.setattr(registry, "tasks", lambda: [kept, kept_elsewhere])

    @pytest.fixture
    def go_away(self, backend, monkeypatch):
        def read(*given):
            raise BrokerUnavailable("away", maybe_executed=True)

        return lambda: monkeypatch.setattr(type(backend.broker), "run", read)

    @pytest.mark.parametrize(
        ("status", "shown"), [("succeeded", "SUCCESSFUL"), ("dead", "FAILED"), ("cancelled", "FAILED")]
    )
    def test_a_row_that_has_ended_answers(self, backend, go_away, status, shown):
        result, other = kept.enqueue(1), kept_elsewhere.enqueue(2)
        for alias in ("default", "other"):
            TaskRecord.objects.using(alias).update(status=status, finished_at=timezone.now(), repair_at=None)
        go_away()
        result.refresh()
        assert (result.status, backend.get_result(other.id).status) == (shown, shown)
        assert asyncio.run(backend.aget_result(other.id)).is_finished

    @pytest.mark.parametrize("status", ["waiting", "running", "duplicate"])
    def test_how_another_goes_on_is_not_known(self, backend, go_away, status):
        result = kept.enqueue(1)
        TaskRecord.objects.update(status=status)
        go_away()
        with pytest.raises(BrokerUnavailable):
            backend.get_result(result.id)

    def test_a_database_that_is_away_too_changes_nothing(self, backend, go_away, monkeypatch):
        def fail(*given):
            raise OperationalError("gone")

        go_away()
        monkeypatch.setattr("django_taskq.rows.find", fail)
        with pytest.raises(BrokerUnavailable):
            backend.get_result("A")

    def test_where_no_task_has_rows_no_database_is_asked(self, backend, go_away, monkeypatch):
        result = kept.enqueue(1)
        monkeypatch.setattr(registry, "tasks", lambda: [tasks.add])
        go_away()
        with CaptureQueriesContext(connection) as queries, pytest.raises(BrokerUnavailable):
            backend.get_result(result.id)
        assert len(queries) == 0


class TestDuplicates:
    def test_the_row_of_a_duplicate_is_closed(self, backend, redis_client):
        first = kept.using(idempotency_key="k").enqueue(1)
        with atomic():
            second = kept.using(idempotency_key="k").enqueue(2)
            provisional = second.id

        assert second.id == first.id
        row = TaskRecord.objects.get(pk=provisional)
        assert (row.status, row.repair_at) == ("duplicate", None)
        assert row.finished_at is not None
        assert row_of(first).status == "waiting"

    def test_a_row_that_can_not_be_closed_is_left_to_a_worker(self, backend, monkeypatch, caplog):
        first = kept.using(idempotency_key="k").enqueue(1)
        monkeypatch.setattr("django_taskq.outbox.OPEN", object())  # which no database takes
        monkeypatch.setattr("django_taskq.outbox.DatabaseError", TypeError)

        second = kept.using(idempotency_key="k").enqueue(2)

        assert second.id == first.id
        assert "left to a worker" in caplog.text

    def test_one_whose_elder_can_not_be_looked_up_raises_nothing_after_the_commit(
        self, outbox_backend, monkeypatch, redis_client
    ):
        first = kept.using(idempotency_key="k").enqueue(1)
        (lease,) = claim(outbox_backend.broker)
        outbox_backend.broker.exchange([Complete(lease, b"{}")], None)
        redis_client.delete(f"{{taskq}}:log:{first.id}")  # as its TTL does, before that of the key
        asked = []

        def fail(*given):
            asked.append(given)
            raise OperationalError("gone away")

        monkeypatch.setattr("django_taskq.rows.find", fail)
        with atomic():
            second = kept.using(idempotency_key="k").enqueue(2)

        assert asked
        assert (second.id, second.status) == (first.id, TaskResultStatus.SUCCESSFUL)


class TestAliases:
    def test_a_row_is_where_the_task_says(self, backend, redis_client, inspector):
        with atomic("other"):
            result = kept_elsewhere.enqueue(1)
            assert (count(), count("other")) == (0, 1)
            assert not is_stored(redis_client, result)

        assert inspector.record(result.id).head.record_alias == "other"

    def test_a_block_of_another_database_defers_the_row_with_the_task(self, backend, redis_client):
        with atomic("other"):
            result = kept.enqueue(1)
            assert count() == 0

        assert count() == 1
        assert is_stored(redis_client, result)

    def test_a_block_that_was_opened_by_then_defers_it_again(self, backend, redis_client):
        with ExitStack() as blocks:
            with atomic("other"):
                result = kept.enqueue(1)
                blocks.enter_context(atomic())
            assert (count(), is_stored(redis_client, result)) == (1, False)

        assert is_stored(redis_client, result)

    def test_a_rollback_of_another_database_leaves_no_row(self, backend, redis_client):
        with rolled_back("other"):
            kept.enqueue(1)

        assert count() == 0
        assert redis_client.dbsize() == 0

    @pytest.mark.parametrize("order", [("default", "other"), ("other", "default")])
    def test_c73_nested_both_ways_it_waits_for_both(self, backend, redis_client, order):
        with atomic(order[0]):
            with atomic(order[1]):
                here, there = kept.enqueue(1), kept_elsewhere.enqueue(2)
                assert (count(), count("other")) == (1, 1)
            assert not is_stored(redis_client, here)
            assert not is_stored(redis_client, there)

        assert is_stored(redis_client, here)
        assert is_stored(redis_client, there)

    def test_c73_the_rows_own_database_decides(self, backend, redis_client):
        with rolled_back("other"), atomic():
            here, there = kept.enqueue(1), kept_elsewhere.enqueue(2)

        assert (count(), count("other")) == (1, 0)
        assert row_of(here).status == "waiting"  # a worker will push it
        assert not is_stored(redis_client, there)

    def test_an_alias_to_wait_for_does_not_let_it_go_before_its_row(self, backend, redis_client):
        with atomic():
            result = kept.using(on_commit="other").enqueue(1)
            assert row_of(result)
            assert not is_stored(redis_client, result)

        assert is_stored(redis_client, result)

    def test_a_manual_transaction_of_its_database_is_refused(self, backend, redis_client):
        transaction.set_autocommit(False)
        try:
            with pytest.raises(TransactionManagementError, match="manual transaction"):
                kept.using(on_commit="other").enqueue(1)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)


class TestOption:
    def test_records_outbox_is_for_background_tasks(self, with_options, inspector):
        with_options(records="outbox")
        results = [tasks.add.enqueue(1), tasks.stock.enqueue(2), replace(tasks.add, outbox=False).enqueue(3)]

        assert [inspector.record(result.id).head.record_alias for result in results] == ["default", None, None]
        assert count() == 1

    def test_a_task_that_does_not_wait_has_none(self, with_options):
        with_options(records="outbox")

        with pytest.raises(InvalidTask, match="on_commit can't be False with an outbox"):
            tasks.at_once.enqueue()
        replace(tasks.at_once, outbox=False).enqueue()
        with pytest.raises(InvalidTask, match="on_commit can't be False with an outbox"):
            tasks.add.using(on_commit=False)

    def test_a_backend_that_does_not_wait_has_none(self, with_options):
        with_options(on_commit=False)

        with pytest.raises(InvalidTask, match="on_commit can't be False with an outbox"):
            kept.enqueue(1)
        replace(kept, on_commit=True).enqueue(1)


@pytest.mark.parametrize(
    ("declared", "row", "effects"),
    [
        ({}, None, None),
        ({"outbox": False}, None, None),
        ({"outbox": True}, "default", None),
        ({"outbox": "other"}, "other", None),
        ({"atomic": True}, "default", "default"),
        ({"atomic": "other"}, "other", "other"),
        ({"atomic": True, "outbox": "other"}, "other", "other"),
        ({"atomic": "other", "outbox": "default"}, "default", "other"),
        ({"atomic": "other", "outbox": True}, "other", "other"),
    ],
)
def test_what_is_declared_travels_with_the_record(backend, inspector, declared, row, effects):
    record = inspector.record(replace(tasks.add, **declared).enqueue(1).id)

    assert record.head.record_alias == row
    assert record.envelope.atomic == effects
    assert (count(), count("other")) == (row == "default", row == "other")


class TestTestCase(TestCase):
    def test_in_a_test_case_the_push_is_one_of_its_callbacks(self):
        with self.captureOnCommitCallbacks() as callbacks:
            result = kept.enqueue(1)

        assert len(callbacks) == 1
        assert row_of(result).status == "waiting"


def test_the_backlog_is_what_is_open(backend):
    assert backlog("default", "default") == (0, 0, None)
    with no_push(backend):
        kept.enqueue_many([((1,), {}), ((2,), {}), ((3,), {})])
    pk = TaskRecord.objects.order_by("pk")[0].pk
    early = datetime(2026, 1, 1, tzinfo=UTC)
    TaskRecord.objects.filter(pk=pk).update(repair_at=early, enqueued_at=early)

    found = backlog("default", "default")
    assert (found.open, found.due) == (3, 1)
    assert found.oldest > timedelta(days=30)
    assert backlog("elsewhere", "default") == (0, 0, None)
