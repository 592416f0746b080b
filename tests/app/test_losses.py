"""Redis loses some of what it held, or goes away, and so do databases: the repair finds what is open and goes on."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError, ProgrammingError, connection, connections
from django.utils import timezone

from django_taskq import registry, repair, results
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable, OutOfMemory
from django_taskq.models import TaskRecord
from django_taskq.repair import INTERVAL, TAKEN, Pass
from tests.app import tasks
from tests.app.outboxes import (
    blocked,
    duty,
    is_about,
    kept,
    kept_elsewhere,
    make_due,
    repair_in,
    row_of,
    unpushed,
    word,
)
from tests.app.outboxes import repair as repaired
from tests.app.test_backend import claim

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

ERROR = b'{"error":"E","message":"no"}'


@pytest.fixture
def backend(outbox_backend):
    return outbox_backend


def away(*given):
    raise BrokerUnavailable("away", maybe_executed=False)


@pytest.fixture
def elapse(monkeypatch):
    """Give a function that lets seconds pass for the repair."""
    elapsed = []
    monkeypatch.setattr(
        repair, "time", SimpleNamespace(time=time.time, monotonic=lambda: time.monotonic() + sum(elapsed))
    )
    return elapsed.append


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

    def test_a_letter_of_an_older_copy_that_was_begun_again_is_retried(self, backend):
        result, other = kept.enqueue(1), kept.enqueue(2)
        for lease in claim(backend.broker, count=2):
            backend.broker.bury(lease, ERROR)
            begun_later = lease.id == result.id
            TaskRecord.objects.filter(pk=lease.id).update(status="running", token=lease.token + begun_later)

        repaired(backend)
        assert [word(backend, each) for each in (result, other)] == ["waiting", "dead"]
        assert [row_of(each).status for each in (result, other)] == ["running", "dead"]

        repaired(backend)
        assert is_about(repair_in(result), INTERVAL)

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

    def test_what_was_asked_about_after_a_slow_answer_is_asked_about_again_after_a_loss(
        self, backend, redis_client, monkeypatch, elapse
    ):
        """Redis's clock is known from that answer, and by the time it came a moment had passed."""
        result = kept.enqueue(1)
        make_due()
        ask = Broker.repaired

        def ask_slowly(self, *given):
            answer = ask(self, *given)
            elapse(0.5)
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(Broker, "repaired", ask_slowly)
            duty(backend).work()
        redis_client.flushall()

        duty(backend).work()

        assert word(backend, result) == "waiting"

    @pytest.mark.parametrize("goes_away", [False, True])
    def test_what_another_had_asked_about_before_the_loss_is_asked_about_again(
        self, backend, redis_client, monkeypatch, asked, goes_away
    ):
        result = kept.enqueue(1)
        make_due()
        later, lost = Pass._later, []

        def lose_first(self, *given):
            if not lost:
                lost.append(redis_client.flushall())
                with monkeypatch.context() as patched, pytest.raises(BrokerUnavailable) if goes_away else nullcontext():
                    if goes_away:
                        patched.setattr(Broker, "states", away)
                    duty(backend).work()
            later(self, *given)

        monkeypatch.setattr(Pass, "_later", lose_first)
        duty(backend).work()
        duty(backend).work()

        assert asked == [result.id] * 2
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

    def test_a_row_whose_writer_had_a_wrong_clock_is_found_within_the_hour(self, backend, elapse):
        work = duty(backend).work
        work()
        result = unpushed(backend)
        make_due(ago=-timedelta(days=1))
        work()
        assert word(backend, result) == "GONE"

        elapse(repair.LOOK)
        work()

        assert word(backend, result) == "waiting"

    @pytest.mark.parametrize("slow", ["default", "other"])
    def test_a_slow_database_takes_none_of_the_others_time(self, backend, monkeypatch, elapse, slow):
        results = {
            "default": [unpushed(backend) for _ in range(3)],
            "other": [unpushed(backend, kept_elsewhere) for _ in range(3)],
        }
        monkeypatch.setattr(repair, "PAGE", 1)
        for alias in results:
            make_due(alias)
        take = Pass._take

        def take_long(self):
            if self._alias == slow:
                elapse(repair.ROUND)
            return take(self)

        monkeypatch.setattr(Pass, "_take", take_long)
        duty(backend).work()

        results.pop(slow)
        assert [word(backend, each) for found in results.values() for each in found] == ["waiting"] * 3

    def test_without_an_outbox_no_database_is_asked(self, with_options, monkeypatch):
        monkeypatch.setattr(registry, "tasks", lambda: [tasks.add])
        work = duty(with_options(records="finished")).work
        work()

        with blocked("default"), blocked("other"):
            assert work() == repair.LONG_IDLE

    def test_rows_are_found_whatever_is_declared_here(self, with_options, monkeypatch, elapse):
        monkeypatch.setattr(registry, "tasks", lambda: [tasks.add])
        backend = with_options(records="none")
        work = duty(backend).work
        work()
        result = unpushed(backend, kept_elsewhere)
        make_due("other")

        work()
        assert word(backend, result) == "GONE"
        elapse(repair.SEEK)
        work()
        assert word(backend, result) == "waiting"

        result = unpushed(backend, kept_elsewhere)
        make_due("other")
        other = duty(backend)
        monkeypatch.setattr(other, "_holds_rows", lambda alias: False)
        other.work()  # the first one noted it in Redis
        assert word(backend, result) == "waiting"

    def test_a_database_without_the_table_is_left_alone(self, with_options, monkeypatch, elapse):
        monkeypatch.setattr(registry, "tasks", lambda: [tasks.add])
        work = duty(with_options(records="none")).work

        def refuse(execute, sql, *given):
            asked.append(sql)
            raise ProgrammingError("no such table")

        asked = []
        with connection.execute_wrapper(refuse):
            work()
            elapse(repair.SEEK)
            work()
            assert len(asked) == 1
            elapse(repair.LOOK)
            work()
            assert len(asked) == 2

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
        assert repair_in(result) < timedelta(seconds=5)

        repaired(backend)
        assert word(backend, result) == "waiting"

    def test_rows_are_given_back_while_its_memory_is_full(self, backend, monkeypatch):
        results = [unpushed(backend) for _ in range(3)]
        held = kept.enqueue(1)
        make_due()
        with monkeypatch.context() as patched:
            patched.setattr(Broker, "enqueue", self.failing(OutOfMemory("full")))
            with pytest.raises(OutOfMemory):
                duty(backend).work()
        assert all(repair_in(each) < timedelta(seconds=5) for each in results)
        assert is_about(repair_in(held), INTERVAL)

        repaired(backend)
        assert {word(backend, each) for each in results} == {"waiting"}

    def test_a_task_that_found_the_memory_full_is_pushed_when_it_is_not(self, backend, redis_client):
        redis_client.config_set("maxmemory", "1")
        try:
            result = kept.enqueue(1)
            assert (result.status, result.enqueued_at) == ("READY", None)
            make_due()
            with pytest.raises(OutOfMemory):
                duty(backend).work()
        finally:
            redis_client.config_set("maxmemory", "0")

        make_due()
        duty(backend).work()
        assert word(backend, result) == "waiting"

    def test_a_database_that_is_away_keeps_no_other_waiting(self, backend, monkeypatch, caplog, elapse):
        here, there = unpushed(backend), unpushed(backend, kept_elsewhere)
        for alias in ("default", "other"):
            make_due(alias)
        take, tried = Pass._take, []

        def fail(self):
            tried.append(self._alias)
            if self._alias == "default":
                raise OperationalError("gone away")
            return take(self)

        work = duty(backend).work
        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setattr(Pass, "_take", fail)
            work()
            work()
            assert tried.count("other") == 2
            elapse(1)
            work()
        assert tried.count("default") > 1
        assert (word(backend, here), word(backend, there)) == ("GONE", "waiting")
        assert caplog.text.count("gone away") == 1

        elapse(1)
        work()
        assert word(backend, here) == "waiting"
        assert "The database 'default' answers again" in caplog.text

    def test_it_waits_longer_and_longer_but_not_for_ever(self, backend, monkeypatch, elapse):
        monkeypatch.setattr(Pass, "_take", self.failing(OperationalError("gone away")))
        monkeypatch.setattr(repair, "record_aliases", lambda keeps: {"default"})
        work = duty(backend).work

        pauses = []
        for _ in range(20):
            pauses.append(work())
            elapse(pauses[-1])

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
