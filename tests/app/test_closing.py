"""What a person ends or begins again: rows say it first, in every database that has them, and nothing undoes it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from django_taskq import background, registry, results
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.records import State
from django_taskq.closing import Closing
from django_taskq.models import TaskRecord
from django_taskq.repair import Repair
from django_taskq.worker.endings import NotRecorded
from tests.broker.helpers import RESULT, bury_one, envelope, lease_one, put, read

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def nothing():
    return None


#: Longer than what is read to find out where rows are.
LONG = ["x" * 2000]


@pytest.fixture
def broker(backend):
    return backend.broker


@pytest.fixture
def closing(inspector):
    """Close the rows of a backend that keeps none itself; single tasks do."""
    return Closing(inspector, keeps_rows=False)


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """Let one task be declared, whose rows are in both databases."""
    monkeypatch.setattr(registry, "_declared", {})
    background(outbox="default", atomic="other")(nothing)


def keep(record_id, status="waiting", alias="default", is_outbox=True, **columns):
    """Make a row, open or not as its status says."""
    open_until = timezone.now() + timedelta(minutes=30) if is_outbox and status in ("waiting", "running") else None
    columns = {"enqueued_at": timezone.now(), "repair_at": open_until, "is_outbox": is_outbox, **columns}
    TaskRecord.objects.using(alias).create(
        id=record_id, backend="default", task="a.b", queue="q", status=status, envelope='{"name": "a.b"}', **columns
    )


def row(record_id, alias="default"):
    return TaskRecord.objects.using(alias).get(pk=record_id)


def statuses(record_id):
    """Return what the rows in both databases say."""
    found = [TaskRecord.objects.using(alias).filter(pk=record_id).first() for alias in ("default", "other")]
    return [each and each.status for each in found]


def is_open(record_id, alias="default"):
    return row(record_id, alias).repair_at is not None


class TestDiscard:
    def test_the_row_is_closed_for_good(self, closing, broker):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], "dead", finished_at=timezone.now() - timedelta(days=9))
        before = timezone.now()
        assert closing.discard([letter]) == ["DONE"]
        assert (row(letter[0]).status, is_open(letter[0])) == ("cancelled", False)
        assert row(letter[0]).finished_at >= before

    @pytest.mark.parametrize("status", ["waiting", "running", "dead"])
    def test_the_row_is_closed_whatever_it_says_and_whoever_wrote_it(self, closing, broker, status):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], status, token=10**15, worker="another")
        closing.discard([letter])
        assert (row(letter[0]).status, is_open(letter[0])) == ("cancelled", False)

    @pytest.mark.parametrize("status", ["succeeded", "duplicate"])
    def test_a_row_that_is_final_stays(self, closing, broker, status):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], status)
        closing.discard([letter])
        assert row(letter[0]).status == status

    def test_a_letter_that_was_retried_meanwhile_has_an_open_row(self, closing, broker):
        record_id, died_at = bury_one(broker, record_alias="default")
        broker.requeue([(record_id, died_at, 0)])
        keep(record_id, "waiting")
        assert closing.discard([(record_id, died_at)]) == ["CHANGED"]
        assert (row(record_id).status, is_open(record_id), row(record_id).finished_at) == ("waiting", True, None)

    def test_a_letter_that_has_died_anew_has_a_dead_row(self, closing, broker):
        record_id, died_at = bury_one(broker, record_alias="default")
        keep(record_id, "dead")
        assert closing.discard([(record_id, died_at - 1)]) == ["CHANGED"]
        assert (row(record_id).status, is_open(record_id)) == ("dead", False)

    def test_a_letter_whose_state_is_not_known_harms_no_other(self, closing, broker):
        strange, letter = bury_one(broker, record_alias="default"), bury_one(broker, record_alias="default")
        broker.client.hset(broker.keys.run(strange[0]), "state", "paused")
        for record_id, _ in (strange, letter):
            keep(record_id, "dead")
        assert closing.discard([(strange[0], strange[1] - 1), letter]) == ["CHANGED", "DONE"]
        assert [row(record_id).status for record_id, _ in (strange, letter)] == ["cancelled", "cancelled"]


class TestRetry:
    def test_the_row_is_open_again_and_its_attempts_count_anew(self, closing, broker):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], "dead", attempts=3, token=7, finished_at=timezone.now(), started_at=timezone.now())
        assert closing.retry([letter]) == ["DONE"]
        found = row(letter[0])
        assert (found.status, found.attempts, found.token) == ("waiting", 0, 7)
        assert (found.finished_at, found.started_at) == (None, None)
        assert timezone.now() < found.repair_at < timezone.now() + timedelta(hours=1)

    def test_a_row_that_is_no_outbox_is_repaired_by_nobody(self, inspector, broker):
        letter = bury_one(broker)
        keep(letter[0], "dead", is_outbox=False)
        Closing(inspector, keeps_rows=True).retry([letter])
        assert (row(letter[0]).status, is_open(letter[0])) == ("waiting", False)

    def test_a_letter_whose_discard_never_reached_redis_can_be_retried(self, closing, broker, monkeypatch):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], "dead")
        with monkeypatch.context() as patch:
            patch.setattr(type(broker), "discard", away)
            with pytest.raises(BrokerUnavailable):
                closing.discard([letter])
        assert row(letter[0]).status == "cancelled"
        assert closing.retry([letter]) == ["DONE"]
        assert (row(letter[0]).status, is_open(letter[0])) == ("waiting", True)

    @pytest.mark.parametrize("forgotten", [False, True])
    def test_a_letter_that_was_discarded_stays_so(self, closing, broker, forgotten):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], "dead")
        closing.discard([letter])
        if forgotten:
            broker.client.flushall()
        assert closing.retry([letter]) == ["CHANGED"]
        assert (row(letter[0]).status, is_open(letter[0])) == ("cancelled", False)

    def test_a_letter_whose_key_was_taken_has_the_row_of_a_dead_one(self, closing, broker, inspector):
        letter = bury_one(broker, key="k", record_alias="default")
        began = inspector.record(letter[0]).started_at
        keep(letter[0], "dead", attempts=1, started_at=results.moment(began))
        before = TaskRecord.objects.values("status", "attempts", "started_at", "repair_at").get()
        put(broker, key="k")
        assert closing.retry([letter]) == ["TAKEN"]
        assert TaskRecord.objects.values(*before).get() == before


class TestCancel:
    def test_what_waits_is_cancelled_with_its_row(self, closing, broker):
        (record_id,) = put(broker, record_alias="default")
        keep(record_id)
        assert closing.cancel([record_id]) == ["DONE"]
        assert (row(record_id).status, is_open(record_id)) == ("cancelled", False)
        assert read(broker, record_id).state is State.CANCELLED

    def test_the_row_of_what_runs_says_so_before_it_ends(self, closing, broker):
        lease = lease_one(broker, record_alias="default")
        keep(lease.id, "running")
        assert closing.cancel([lease.id]) == ["ASKED"]
        assert row(lease.id).status == "cancelled"

    def test_what_has_succeeded_keeps_its_result(self, closing, broker):
        lease = lease_one(broker, record_alias="default")
        keep(lease.id, "running")
        broker.complete(lease, RESULT)
        assert closing.cancel([lease.id]) == ["ENDED"]
        found = row(lease.id)
        assert (found.status, found.result, found.token, found.repair_at) == ("succeeded", "42", lease.token, None)

    def test_what_redis_never_got_or_has_lost_is_closed(self, closing):
        keep("A")
        keep("A", alias="other")
        assert closing.cancel(["A"]) == ["MISSING"]
        assert statuses("A") == ["cancelled", "cancelled"]
        assert not is_open("A")

    def test_without_rows_no_database_is_asked(self, closing, broker, monkeypatch, django_assert_num_queries):
        monkeypatch.setattr(registry, "_declared", {})
        (record_id,) = put(broker)
        with django_assert_num_queries(0):
            assert closing.cancel([record_id, "A"]) == ["DONE", "MISSING"]


class TestForgetfulRedis:
    @pytest.fixture
    def repair(self, backend):
        """Give a function that pushes again what Redis lost."""
        return lambda: Repair("default", type(backend), backend.conf, backend.broker).work()

    @pytest.mark.parametrize("status", ["dead", "running"])
    def test_what_a_person_discarded_is_not_brought_back(self, closing, broker, repair, status):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], status)
        closing.discard([letter])
        broker.client.flushall()
        repair()
        assert not broker.client.exists(broker.keys.task(letter[0]))

    def test_what_a_person_cancelled_is_not_brought_back(self, closing, broker, repair):
        ids = put(broker, 2, record_alias="default")
        for record_id in ids:
            keep(record_id)
        closing.cancel(ids[:1])
        broker.client.flushall()
        repair()
        assert [broker.client.exists(broker.keys.task(record_id)) for record_id in ids] == [0, 1]

    def test_what_a_person_retried_is(self, closing, broker, repair):
        letter = bury_one(broker, record_alias="default")
        keep(letter[0], "dead")
        closing.retry([letter])
        broker.client.flushall()
        assert row(letter[0]).repair_at < timezone.now() + timedelta(minutes=1)
        TaskRecord.objects.update(repair_at=timezone.now())
        repair()
        assert read(broker, letter[0]).state is State.WAITING


class TestDatabases:
    def test_the_row_is_where_the_record_says(self, closing, broker):
        letter = bury_one(broker, record_alias="other")
        keep(letter[0], "dead", alias="other")
        keep(letter[0], "dead")
        closing.discard([letter])
        assert statuses(letter[0]) == ["dead", "cancelled"]

    @pytest.mark.parametrize("args", [[], LONG])
    def test_the_receipt_beside_the_effects_is_closed_too(self, closing, broker, args):
        letter = bury_one(broker, record_alias="default", envelope=envelope(args=args, atomic="other"))
        keep(letter[0], "dead")
        keep(letter[0], "running", alias="other", is_outbox=False)
        closing.discard([letter])
        assert statuses(letter[0]) == ["cancelled", "cancelled"]

    @pytest.mark.parametrize(("keeps_rows", "expected"), [(True, "cancelled"), (False, "dead")])
    def test_a_record_that_names_none_has_its_row_where_the_router_says(self, inspector, broker, keeps_rows, expected):
        letter = bury_one(broker)
        keep(letter[0], "dead", is_outbox=False)
        Closing(inspector, keeps_rows).discard([letter])
        assert statuses(letter[0]) == [expected, None]

    def test_when_one_of_them_fails_none_is_changed_and_redis_not_told(self, closing, broker):
        letter = bury_one(broker, record_alias="default", envelope=envelope(atomic="other"))
        keep(letter[0], "dead")
        with connections["other"].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {TaskRecord._meta.db_table} RENAME TO elsewhere")
        with pytest.raises(NotRecorded):
            closing.discard([letter])
        assert row(letter[0]).status == "dead"
        assert read(broker, letter[0]).state is State.DEAD

    def test_thousands_are_closed_at_once(self, closing, broker):
        ids = put(broker, 1000, record_alias="default")
        for record_id in ids[::100]:
            keep(record_id)
        assert set(closing.cancel(ids)) == {"DONE"}
        assert set(TaskRecord.objects.values_list("status", flat=True)) == {"cancelled"}


def away(*arguments):
    raise BrokerUnavailable("away", maybe_executed=False)
