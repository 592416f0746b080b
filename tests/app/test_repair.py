"""Whatever becomes of a push or of Redis, a worker finds the rows that are open and sets them right."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.transaction import atomic
from django.test import override_settings
from django.utils import timezone

from django_taskq import outbox, repair, results
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.settlements import Complete
from django_taskq.models import TaskRecord
from django_taskq.repair import INTERVAL
from tests.app.outboxes import duty, is_about, kept, make_due, repair_in, row_of, unpushed, word
from tests.app.outboxes import repair as repaired
from tests.app.test_backend import claim

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

ERROR = b'{"error":"E","message":"no"}'


@pytest.fixture
def backend(outbox_backend):
    return outbox_backend


class TestPush:
    def test_what_was_not_pushed_is_pushed_when_it_is_due(self, backend, inspector):
        result = unpushed(backend, kept.using(priority=5, queue_name="mail"), 1, b="é")
        duty(backend).work()
        assert word(backend, result) == "GONE"  # who enqueued it may be about to push it

        repaired(backend)

        record = inspector.record(result.id)
        assert (record.head.queue, record.head.priority, record.head.record_alias) == ("mail", 5, "default")
        assert record.envelope_bytes == row_of(result).envelope.encode()
        assert (row_of(result).status, is_about(repair_in(result), INTERVAL)) == ("waiting", True)

    def test_what_died_between_the_commit_and_the_push_is_pushed(self, backend, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "after_commit", lambda *given: True)
            with atomic():
                result = kept.enqueue(1)
        assert word(backend, result) == "GONE"

        repaired(backend)

        assert word(backend, result) == "waiting"

    def test_what_was_pushed_by_both_is_stored_once(self, backend, redis_client):
        with atomic():
            result = kept.enqueue(1)
            # A row that isn't committed is seen here only since this is its own connection.
            repaired(backend)
            assert word(backend, result) == "waiting"

        repaired(backend)
        assert redis_client.zcard("{taskq}:queue:default:ready") == 1
        assert len(claim(backend.broker, count=10)) == 1
        repaired(backend)
        assert not claim(backend.broker, count=10, nonce=2)

    def test_c34_a_push_whose_reply_was_lost_is_resolved(self, backend, monkeypatch, caplog):
        enqueue_pages = Broker.enqueue_pages

        def lose(self, records):
            list(enqueue_pages(self, records))
            yield BrokerUnavailable("cut", maybe_executed=True)

        with monkeypatch.context() as patched:
            patched.setattr(Broker, "enqueue_pages", lose)
            result = kept.enqueue(1)
        assert (result.enqueued_at, word(backend, result)) == (None, "waiting")
        assert "may have been stored" in caplog.text

        repaired(backend)

        assert len(claim(backend.broker, count=10)) == 1
        assert row_of(result).status == "waiting"

    def test_a_relayed_task_is_announced(self, backend, sent):
        result = unpushed(backend)
        assert sent == []

        repaired(backend)
        repaired(backend)

        ((sender, announced, enqueued_at),) = sent
        assert sender is type(backend)
        assert (announced.id, announced.args, announced.status) == (result.id, [1], "READY")
        assert enqueued_at is not None

    def test_a_duplicate_is_closed(self, backend):
        first = kept.using(idempotency_key="k").enqueue(1)
        second = unpushed(backend, kept.using(idempotency_key="k"))
        third = unpushed(backend, kept.using(idempotency_key="k"))

        repaired(backend)

        assert [row_of(each).status for each in (first, second, third)] == ["waiting", "duplicate", "duplicate"]
        assert row_of(second).repair_at is None
        assert backend.get_result(second.id).id == first.id
        assert len(claim(backend.broker, count=10)) == 1

    def test_a_duplicate_whose_row_could_not_be_closed_is_closed(self, backend, monkeypatch):
        kept.using(idempotency_key="k").enqueue(1)
        monkeypatch.setattr(outbox, "close_duplicate", lambda record: None)
        with atomic():
            second = kept.using(idempotency_key="k").enqueue(2)
            row = row_of(second)

        repaired(backend)

        row.refresh_from_db()
        assert (row.status, row.repair_at) == ("duplicate", None)

    def test_of_rows_with_one_key_the_first_is_pushed(self, backend):
        results = [unpushed(backend, kept.using(idempotency_key="k")) for _ in range(3)]

        repaired(backend)

        assert sorted(row_of(each).status for each in results) == ["duplicate", "duplicate", "waiting"]

    def test_a_row_that_can_not_be_pushed_keeps_no_other_waiting(self, backend, caplog):
        results = [unpushed(backend) for _ in range(3)]
        TaskRecord.objects.filter(pk=results[1].id).update(queue="a:b")

        repaired(backend)

        assert [word(backend, each) for each in results] == ["waiting", "GONE", "waiting"]
        assert f"The row of {results[1].id} can't be pushed" in caplog.text
        assert is_about(repair_in(results[1]), INTERVAL)

    def test_a_row_of_a_newer_release_is_pushed(self, backend, inspector):
        result = unpushed(backend)
        TaskRecord.objects.update(envelope='{"v":2,"x":1}')

        repaired(backend)

        assert inspector.record(result.id).envelope_bytes == b'{"v":2,"x":1}'


class TestDelay:
    @pytest.mark.parametrize(
        ("age", "remaining"), [(0, 3600), (1000, 2600), (3600, 0), (10**6, 0), (-1000, 3600)], ids=str
    )
    def test_what_is_left_of_a_delay_is_kept(self, backend, inspector, age, remaining):
        result = unpushed(backend, kept.using(run_after=timedelta(hours=1)))
        TaskRecord.objects.update(enqueued_at=timezone.now() - timedelta(seconds=age))

        repaired(backend)

        record = inspector.record(result.id)
        left = 0 if record.due_at is None else (record.due_at - record.head.enqueued_at) / 1000
        assert abs(left - remaining) < 5

    def test_it_goes_by_the_clock_of_redis(self, backend, inspector, monkeypatch):
        result = unpushed(backend, kept.using(run_after=timedelta(hours=1)))
        ahead = repair.time.time
        monkeypatch.setattr(results, "milliseconds_of", lambda when: round(ahead() * 1000) + 86_400_000)
        monkeypatch.setattr(repair.time, "time", lambda: ahead() + 86_400)

        repaired(backend)

        record = inspector.record(result.id)
        assert abs(record.due_at - record.head.enqueued_at - 3_600_000) < 5000

    def test_naive_times_are_those_of_the_time_zone(self, with_options, inspector):
        with override_settings(USE_TZ=False, TIME_ZONE="America/New_York"):
            backend = with_options(records="outbox")
            result = unpushed(backend, kept.using(run_after=timedelta(hours=1)))
            TaskRecord.objects.update(enqueued_at=timezone.now() - timedelta(minutes=20))
            assert row_of(result).enqueued_at.tzinfo is None
            repaired(backend)
            assert is_about(repair_in(result), INTERVAL)

        record = inspector.record(result.id)
        assert abs(record.due_at - record.head.enqueued_at - 2_400_000) < 5000

    def test_a_moment_is_kept(self, backend, inspector):
        moment = timezone.now() + timedelta(hours=5)
        result = unpushed(backend, kept.using(run_after=moment))

        repaired(backend)

        assert inspector.record(result.id).due_at == results.milliseconds_of(moment)

    def test_a_set_that_was_lost_is_filled_again(self, backend, redis_client, inspector):
        result = kept.using(run_after=timedelta(hours=1)).enqueue(1)
        TaskRecord.objects.update(enqueued_at=timezone.now() - timedelta(seconds=1800))
        redis_client.delete("{taskq}:queue:default:scheduled")

        repaired(backend)

        record = inspector.record(result.id)
        assert abs(record.due_at - record.head.enqueued_at - 1_800_000) < 5000


class TestClocks:
    @pytest.mark.parametrize("days", [-1, 1])
    def test_a_worker_with_a_wrong_clock_hides_no_row(self, backend, redis_client, monkeypatch, days):
        result = kept.enqueue(1)
        make_due()
        with monkeypatch.context() as patched:
            shift(patched, days)
            duty(backend).work()
        assert is_about(repair_in(result), INTERVAL)
        redis_client.flushall()

        duty(backend).work()

        assert word(backend, result) == "waiting"

    def test_a_worker_with_a_wrong_clock_does_not_keep_the_rows_it_took(self, backend, monkeypatch):
        result = unpushed(backend)
        make_due()
        with monkeypatch.context() as patched:
            shift(patched, 1)
            patched.setattr(repair.Pass, "_ask", lambda *given: None)
            duty(backend).work()

        assert is_about(repair_in(result), repair.TAKEN)

    def test_the_row_of_a_producer_that_is_ahead_is_asked_about_when_all_are(self, backend, redis_client, monkeypatch):
        with monkeypatch.context() as patched:
            shift(patched, 1)
            result = unpushed(backend)
        redis_client.flushall()

        duty(backend).work()

        assert word(backend, result) == "waiting"
        assert is_about(repair_in(result), INTERVAL)

    def test_a_pass_that_begins_in_the_future_begins_anew(self, backend, redis_client):
        result = kept.enqueue(1)
        TaskRecord.objects.update(repair_at=timezone.now() + INTERVAL / 2)
        server = backend.broker.repaired().server_id
        redis_client.hset("{taskq}:repaired", "default", f"{server} {10**14}")

        duty(backend).work()

        assert redis_client.hget("{taskq}:repaired", "default").decode() == server
        assert is_about(repair_in(result), INTERVAL)


def shift(patched, days):
    """Set the clock of this process wrongly."""
    wall = repair.time.time
    patched.setattr(repair.time, "time", lambda: wall() + days * 86_400)
    patched.setattr(timezone, "now", lambda known=timezone.now: known() + timedelta(days=days))


class TestEnded:
    def test_what_somebody_ended_without_its_row_is_closed(self, backend, redis_client):
        held = {lease.id: lease for lease in self.leased(backend, 3)}
        succeeded, dead, runs = held
        (cancelled, waits) = (kept.enqueue(1).id for _ in range(2))
        log = '{"result":"é"}'.encode()
        backend.broker.exchange([Complete(held[succeeded], log, 1000)], None)
        backend.broker.bury(held[dead], ERROR)
        backend.broker.cancel([cancelled])

        repaired(backend)

        rows = TaskRecord.objects.in_bulk()
        ids = [succeeded, dead, cancelled, runs, waits]
        assert [rows[key].status for key in ids] == ["succeeded", "dead", "cancelled", "waiting", "waiting"]
        assert [rows[key].repair_at is None for key in ids] == [True, True, True, False, False]
        assert (rows[succeeded].result, rows[succeeded].token) == ('"é"', held[succeeded].token)
        assert '"message":"no"' in rows[dead].history
        assert all(rows[key].finished_at for key in ids[:3])
        assert all(rows[key].is_outbox for key in ids)

    def leased(self, backend, count):
        for _ in range(count):
            kept.enqueue(0)
        return claim(backend.broker, count=count)

    def test_a_row_that_was_closed_is_not_opened(self, backend, monkeypatch):
        result = unpushed(backend)
        make_due()
        states = Broker.states

        def close_meanwhile(self, ids):
            TaskRecord.objects.update(status="cancelled", repair_at=None)
            return states(self, ids)

        monkeypatch.setattr(Broker, "states", close_meanwhile)
        duty(backend).work()

        assert word(backend, result) == "GONE"
        assert (row_of(result).status, row_of(result).repair_at) == ("cancelled", None)

    def test_what_is_not_open_is_not_asked_about(self, backend, asked):
        for status in ("succeeded", "dead", "cancelled", "duplicate"):
            result = kept.enqueue(1)
            TaskRecord.objects.filter(pk=result.id).update(status=status)
        TaskRecord.objects.filter(pk=kept.enqueue(1).id).update(backend="elsewhere")

        repaired(backend)

        assert asked == []
