"""Whatever becomes of a push or of Redis, a worker finds the rows that are open and sets them right."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, connections
from django.db.transaction import atomic
from django.utils import timezone

from django_taskq import outbox, repair, results
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable, OutOfMemory
from django_taskq.broker.settlements import Complete
from django_taskq.models import TaskRecord
from django_taskq.repair import INTERVAL, TAKEN, Pass
from tests.app import tasks
from tests.app.outboxes import duty, make_due, no_push, row_of
from tests.app.outboxes import repair as repaired
from tests.app.test_backend import claim

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

ERROR = b'{"error":"E","message":"no"}'
kept = replace(tasks.add, outbox=True)
kept_elsewhere = replace(tasks.add, outbox="other")


@pytest.fixture
def backend(with_options):
    """Give the backend whose tasks have an outbox; all its rows have been asked about."""
    backend = with_options(records="outbox")
    duty(backend).work()
    return backend


@pytest.fixture
def asked(monkeypatch):
    """Collect the ids that Redis is asked about."""
    ids = []
    states = Broker.states

    def ask(self, page):
        ids.extend(page)
        return states(self, page)

    monkeypatch.setattr(Broker, "states", ask)
    return ids


def blocked(alias):
    """Let a database refuse all queries."""

    def refuse(execute, sql, *given):
        raise AssertionError(sql)

    return connections[alias].execute_wrapper(refuse)


def unpushed(backend, made=kept, *args, **kwargs):
    with no_push(backend):
        return made.enqueue(*args or (1,), **kwargs)


def word(backend, result):
    return backend.broker.states([result.id])[0]


def repair_in(result, alias="default"):
    """Return how far away the next question about a row is."""
    return row_of(result, alias).repair_at - timezone.now()


def is_about(found, wanted):
    return abs(found - wanted) < timedelta(seconds=20)


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
        enqueue = Broker.enqueue

        def lose(self, records):
            enqueue(self, records)
            raise BrokerUnavailable("cut", maybe_executed=True)

        with monkeypatch.context() as patched:
            patched.setattr(Broker, "enqueue", lose)
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


class TestLoss:
    def test_all_is_pushed_again_when_redis_was_emptied(self, backend, redis_client, caplog):
        results = [kept.enqueue(1), kept_elsewhere.enqueue(2), kept.using(queue_name="mail").enqueue(3)]
        for alias in ("default", "other"):
            make_due(alias, -timedelta(minutes=40))
        redis_client.flushall()

        duty(backend).work()

        assert [word(backend, each) for each in results] == ["waiting"] * 3
        assert "Pushed 2 tasks of the outbox in 'default' that Redis did not have" in caplog.text

    def test_nothing_is_asked_twice(self, backend, redis_client, asked):
        result = kept.enqueue(1)
        redis_client.delete("{taskq}:repaired")
        make_due(ago=-timedelta(minutes=40))

        for _ in range(3):
            duty(backend).work()

        assert asked == [result.id]
        assert redis_client.hget("{taskq}:repaired", "default").decode() == redis_client.info()["run_id"]

    def test_all_are_asked_about_when_redis_has_restarted(self, backend, redis_client, asked):
        ids = {kept.enqueue(1).id, unpushed(backend).id}
        make_due(ago=-timedelta(minutes=40))
        redis_client.hset("{taskq}:repaired", "default", "another")

        duty(backend).work()

        assert set(asked) == ids
        assert set(backend.broker.states([*ids])) == {"waiting"}

    def test_an_older_copy_gets_what_it_does_not_hold(self, new_server, settings):
        server = new_server("--appendonly", "no")
        options = {**settings.TASKS["default"]["OPTIONS"], "url": server.unix_url, "records": "outbox"}
        settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}
        backend = kept.get_backend()
        held = kept.enqueue(1)
        duty(backend).work()
        with server.client() as client:
            client.save()
        lost = [kept.enqueue(2) for _ in range(3)]
        make_due(ago=-timedelta(minutes=40))
        server.stop()
        server.start()
        assert {word(backend, each) for each in lost} == {"GONE"}

        duty(backend).work()

        assert {word(backend, each) for each in [held, *lost]} == {"waiting"}
        assert len(claim(backend.broker, count=10)) == 4

    def test_what_is_lost_while_it_is_asked_about_is_asked_about_again(self, backend, redis_client, monkeypatch):
        result = kept.enqueue(1)
        make_due(ago=-timedelta(minutes=40))
        redis_client.delete("{taskq}:repaired")
        ask = Pass._ask

        def ask_then_lose(self, *given):
            ask(self, *given)
            redis_client.flushall()

        with monkeypatch.context() as patched:
            patched.setattr(Pass, "_ask", ask_then_lose)
            duty(backend).work()
        assert word(backend, result) == "GONE"
        assert not redis_client.exists("{taskq}:repaired")

        duty(backend).work()

        assert word(backend, result) == "waiting"

    def test_who_joins_goes_by_the_time_at_which_it_began(self, backend, redis_client, asked):
        kept.enqueue(1)
        make_due(ago=-timedelta(minutes=40))
        run_id = redis_client.info()["run_id"]
        began = timezone.now() - timedelta(minutes=30)
        redis_client.hset("{taskq}:repaired", "default", f"{run_id} {results.milliseconds_of(began)}")

        duty(backend).work()

        assert asked == []  # another one asked about it since then
        assert redis_client.hget("{taskq}:repaired", "default").decode() == run_id

    def test_a_mark_that_is_none_is_none(self, backend, redis_client, asked):
        kept.enqueue(1)
        make_due(ago=-timedelta(minutes=40))
        redis_client.hset("{taskq}:repaired", "default", f"{redis_client.info()['run_id']} soon")

        duty(backend).work()

        assert len(asked) == 1

    def test_a_record_that_was_evicted_is_pushed(self, backend, redis_client):
        result = kept.enqueue(1)
        redis_client.delete(f"{{taskq}}:task:{result.id}")

        repaired(backend)

        assert word(backend, result) == "waiting"
        assert redis_client.zcard("{taskq}:queue:default:ready") == 1

    def test_what_is_left_of_an_evicted_one_goes_first(self, backend, redis_client):
        result = kept.enqueue(1)
        (lease,) = claim(backend.broker)
        backend.broker.retry(lease, 0, ERROR)
        redis_client.delete(f"{{taskq}}:task:{result.id}")
        claim(backend.broker, nonce=2)  # which finds no body

        repaired(backend)
        assert row_of(result).status == "waiting"
        assert is_about(repair_in(result), TAKEN)
        redis_client.delete(f"{{taskq}}:run:{result.id}", f"{{taskq}}:log:{result.id}")  # as their TTL does
        repaired(backend)

        assert word(backend, result) == "waiting"


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


class TestBounds:
    def test_a_round_is_short(self, backend, monkeypatch, asked):
        monkeypatch.setattr(repair, "PAGE", 2)
        monkeypatch.setattr(repair, "ROUND", 0)
        for _ in range(5):
            unpushed(backend)

        assert repaired(backend) == repair.PAUSE
        assert len(asked) == 2
        work = duty(backend).work
        assert work() == repair.PAUSE
        assert work() > 1
        assert len(asked) == 5

    def test_a_loss_is_repaired_page_by_page(self, backend, monkeypatch, redis_client):
        monkeypatch.setattr(repair, "PAGE", 2)
        monkeypatch.setattr(repair, "CHUNK", 1)
        results = [kept.enqueue(1) for _ in range(5)]
        make_due(ago=-timedelta(minutes=40))
        redis_client.flushall()

        duty(backend).work()

        assert {word(backend, each) for each in results} == {"waiting"}

    def test_an_idle_round_is_one_query_and_one_round_trip(self, backend, redis_client):
        kept.enqueue(1)
        work = duty(backend).work
        work()
        before = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
        queries = []
        with connection.execute_wrapper(lambda execute, *given: queries.append(given) or execute(*given)):
            assert 2 < work() <= 5

        assert len(queries) == 1
        assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] - before == 1

    def test_without_an_outbox_no_database_is_asked(self, with_options):
        work = duty(with_options(records="finished")).work
        work()

        with blocked("default"), blocked("other"):
            assert work() == repair.LONG_IDLE

    def test_rows_are_found_whatever_is_declared_here(self, with_options, redis_client):
        backend = with_options(records="none")
        work = duty(backend).work
        work()
        result = unpushed(backend, kept_elsewhere)
        make_due("other")

        work()
        assert word(backend, result) == "GONE"
        duty(backend).work()  # a worker that starts, or looks again after an hour
        assert word(backend, result) == "waiting"

        result = unpushed(backend, kept_elsewhere)
        make_due("other")
        work()  # the other one noted it in Redis
        assert word(backend, result) == "waiting"

    def test_a_mark_of_a_database_that_is_none_is_passed_over(self, backend, redis_client):
        redis_client.hset("{taskq}:repaired", "gone", "x")

        assert repaired(backend) <= 5


class TestOutages:
    def test_rows_are_given_back_when_redis_goes_away(self, backend, monkeypatch):
        result = unpushed(backend)
        make_due()
        with monkeypatch.context() as patched:
            patched.setattr(Broker, "states", self.failing(BrokerUnavailable("away", maybe_executed=False)))
            with pytest.raises(BrokerUnavailable):
                duty(backend).work()
        assert repair_in(result) <= timedelta(0)

        duty(backend).work()
        assert word(backend, result) == "waiting"

    def test_rows_are_given_back_while_its_memory_is_full(self, backend, monkeypatch):
        results = [unpushed(backend) for _ in range(3)]
        held = kept.enqueue(1)
        make_due()
        with monkeypatch.context() as patched:
            patched.setattr(Broker, "enqueue", self.failing(OutOfMemory("full")))
            with pytest.raises(OutOfMemory):
                duty(backend).work()
        assert all(repair_in(each) <= timedelta(0) for each in results)
        assert is_about(repair_in(held), INTERVAL)

        duty(backend).work()
        assert {word(backend, each) for each in results} == {"waiting"}

    def test_a_database_that_is_away_keeps_no_other_waiting(self, backend, monkeypatch, caplog):
        here, there = unpushed(backend), unpushed(backend, kept_elsewhere)
        for alias in ("default", "other"):
            make_due(alias)
        take = Pass._take

        def fail(self):
            if self._alias == "default":
                raise OperationalError("gone away")
            return take(self)

        work = duty(backend).work
        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setattr(Pass, "_take", fail)
            pauses = [work() for _ in range(3)]
        assert pauses[0] < pauses[-1] < 1
        assert (word(backend, here), word(backend, there)) == ("GONE", "waiting")
        assert caplog.text.count("gone away") == 1

        work()
        assert word(backend, here) == "waiting"
        assert "The database 'default' answers again" in caplog.text

    def test_it_waits_longer_and_longer_but_not_for_ever(self, backend, monkeypatch):
        monkeypatch.setattr(Pass, "_take", self.failing(OperationalError("gone away")))
        monkeypatch.setattr(repair, "record_aliases", lambda keeps: {"default"})
        work = duty(backend).work

        pauses = [work() for _ in range(20)]

        assert max(pauses) <= repair.LONGEST_PAUSE
        assert min(pauses[-5:]) > repair.LONGEST_PAUSE / 3

    @staticmethod
    def failing(error):
        def fail(*given):
            raise error

        return fail


def test_its_connections_are_as_old_as_they_may_get(backend, monkeypatch):
    closed = []
    monkeypatch.setattr(connections["default"], "close_if_unusable_or_obsolete", lambda: closed.append(1))

    repaired(backend)

    assert closed == [1]
