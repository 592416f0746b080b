"""What the body of an atomic task may do: nest, enqueue, have hooks, and meet errors of the database."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connections

from django_taskq.broker.envelope import Envelope
from django_taskq.models import TaskRecord
from django_taskq.worker.endings import Ending
from django_taskq.worker.exceptions import TaskTimeout
from django_taskq.worker.outcomes import Failed, settle

from . import effects as jobs
from . import jobs as plain_jobs
from .atomic import EVERYWHERE, ONE_EACH, SERVERS, Control, in_thread, row_of
from .conftest import on_each
from .made import CHILD
from .made import lease as made_lease

ON_MARIADB = tuple(name for name in SERVERS if name.startswith("mariadb"))


@on_each(*EVERYWHERE)
def test_an_error_in_a_nested_block_undoes_that_block_only(leased, run):
    assert run(leased(jobs.swallow, "a", "nested")).is_recorded
    assert jobs.effects() == ["a"]


@pytest.mark.parametrize("how", ["outer", "no savepoint", "roll back", "close"])
@on_each("postgresql-committed", "postgresql-serializable")
def test_a_body_that_caught_what_its_transaction_does_not_survive_has_failed(leased, run, how):
    lease = leased(jobs.swallow, "a", how)
    outcome = run(lease)
    assert isinstance(outcome, Failed)
    assert "TransactionManagementError" in outcome.error.error
    assert (jobs.effects(), row_of(lease).status) == ([], "running")
    # The thread is fit for the next task.
    assert run(leased(jobs.charge, "b")).is_recorded
    assert jobs.effects() == ["b"]


@pytest.mark.parametrize(("how", "survives"), [("outer", True), ("no savepoint", False), ("roll back", False)])
@on_each("sqlite-immediate", *ON_MARIADB)
def test_where_a_transaction_survives_an_error_the_body_does(leased, run, how, survives):
    lease = leased(jobs.swallow, "a", how)
    outcome = run(lease)
    assert (jobs.effects(), row_of(lease).status) == ((["a"], "succeeded") if survives else ([], "running"))
    assert isinstance(outcome, Failed) is not survives
    assert run(leased(jobs.charge, "b")).is_recorded


@on_each(*ON_MARIADB)
def test_half_of_the_effects_are_none_when_a_deadlock_was_caught(leased, run, database):
    """The whole transaction is gone then, and what follows would be one of its own."""
    lease = leased(jobs.catch_deadlock, "left", "right")
    other = leased(jobs.give_twice, "right", "left", weight=20)
    outcomes = []

    def cross():
        # The other holds what is wanted next, and waits for what is held here.
        jobs.meanwhile["right"] = ready.set
        thread.start()
        assert ready.wait(20)

    ready, thread = threading.Event(), threading.Thread(target=lambda: outcomes.extend(in_thread(lambda: run(other))))
    jobs.meanwhile["left"] = cross
    outcome = run(lease)
    thread.join(50)
    assert "by a deadlock that it caught" in outcome.error.message
    assert outcomes[0].is_recorded
    assert ({*jobs.effects()}, jobs.numbers()) == ({"weight"}, [1, 1])


@on_each("mariadb-repeatable")
def test_a_body_that_ends_its_own_transaction_has_failed(leased, run):
    outcome = run(leased(jobs.define))
    assert "The transaction ended before the task did" in outcome.error.message


@on_each(*ONE_EACH)
def test_what_a_hook_raises_after_the_commit_is_logged_and_the_attempt_stands(leased, run, inspector, caplog):
    lease = leased(jobs.hook, "a")
    assert run(lease).is_recorded
    assert (jobs.effects(), row_of(lease).status) == (["a"], "succeeded")
    assert "ZeroDivisionError" in caplog.text
    # The hook behind it was called: it pushed what the body enqueued.
    (follower,) = TaskRecord.objects.exclude(pk=lease.id)
    assert inspector.record(follower.pk).state == "waiting"


@on_each(*EVERYWHERE)
def test_what_a_body_enqueues_is_part_of_its_transaction(leased, run, inspector, claim):
    lease = leased(jobs.enqueue_more, "a", "fail")
    outcome = run(lease)
    assert isinstance(outcome, Failed)
    assert (TaskRecord.objects.count(), inspector.counts()["default"].ready) == (1, 0)
    lease = leased(jobs.enqueue_more, "b")
    assert run(lease).is_recorded
    assert TaskRecord.objects.filter(status="waiting").count() == 1
    assert claim().envelope.args == ["b"]


@on_each(*SERVERS)
def test_what_a_run_enqueued_that_lost_its_lease_is_dropped(application, leased, run, lose, claim, broker):
    lease = leased(jobs.enqueue_more, "a")
    newer = []

    def overtake():
        newer.append(lose(lease))
        assert in_thread(lambda: application._verdicts.begin(newer[0], CHILD)) == [None]

    jobs.meanwhile["a"] = overtake
    run(lease)
    assert TaskRecord.objects.count() == 1
    assert run(newer[0]).is_recorded
    assert TaskRecord.objects.count() == 2
    assert claim().envelope.args == ["a"]


@on_each(*EVERYWHERE)
def test_what_a_rerun_enqueues_is_there_once(leased, run, inspector, monkeypatch):
    lease = leased(jobs.enqueue_more, "a")
    kind = type(connections["records"])
    commit, calls = kind.commit, []

    def fail_once(self):
        calls.append(self)
        if len(calls) == 1:
            raise OperationalError("commit refused")
        commit(self)

    monkeypatch.setattr(kind, "commit", fail_once)
    assert run(lease).is_recorded
    assert (TaskRecord.objects.count(), inspector.counts()["default"].ready) == (2, 1)


@on_each(*ONE_EACH)
def test_a_time_limit_that_strikes_in_the_transaction_undoes_it(application, leased):
    class Limited(Control):
        def limit(self):
            class Strike:
                def __enter__(self):
                    pass

                def __exit__(self, *error):
                    raise TaskTimeout

            return Strike()

    lease = leased(jobs.charge_once, "a")
    outcome = application.perform(lease, Limited())
    assert (outcome.delay_ms, outcome.error.error) == (None, "django_taskq.worker.exceptions.TaskTimeout")
    assert (jobs.effects(), row_of(lease).status) == ([], "running")


@on_each(*ONE_EACH)
def test_a_context_tells_what_a_far_side_can_tell_repeats_by(leased, run, lose, claim):
    jobs.show.using(idempotency_key="show-1").enqueue("a")
    lease = claim()
    newer = lose(lease)
    outcome = run(newer)
    assert outcome.log_json == b'{"result":[%d,"show-1",2]}' % newer.token
    assert newer.token > lease.token


@on_each(*ONE_EACH)
def test_a_result_in_any_script_is_stored(leased, run):
    lease = leased(jobs.charge, "naïve 🚀 ✓")
    assert run(lease).is_recorded
    assert TaskRecord.objects.get().result == '"na\\u00efve \\ud83d\\ude80 \\u2713"'


@on_each(*ONE_EACH)
def test_a_result_that_cannot_be_kept_undoes_the_effects(leased, run):
    lease = leased(jobs.charge_object, "a")
    outcome = run(lease)
    assert outcome.error.error == "builtins.TypeError"
    assert jobs.effects() == []


def test_a_coroutine_function_that_was_enqueued_as_atomic_fails(application):
    envelope = Envelope(plain_jobs.agive.wire_name, [1], atomic="records")
    lease = made_lease(task=b"1 0 default\nrecord records\n\n" + envelope.to_bytes())
    outcome = async_to_sync(application.aperform)(lease, Control())
    assert (outcome.error.error, "runs in no transaction" in outcome.error.message) == ("builtins.TypeError", True)


def test_an_outbox_row_of_a_coroutine_is_begun_and_closed(application, broker, claim):
    replace(plain_jobs.agive, outbox=True).enqueue(5)
    lease = claim()
    outcome = async_to_sync(application.aperform)(lease, Control())
    assert row_of(lease).status == "running"
    (ending,) = application.rows.write([Ending(lease, outcome, CHILD)]).endings
    assert settle(broker, lease, ending.outcome) == "DONE"
    assert (row_of(lease).status, row_of(lease).result) == ("succeeded", "5")
