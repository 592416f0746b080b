"""Effects in the database happen exactly once, whatever else runs, in every isolation level."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import OperationalError, connections

from django_taskq.effects import RERUNS
from django_taskq.models import TaskRecord
from django_taskq.worker.endings import Ending
from django_taskq.worker.outcomes import Released, Succeeded, settle

from . import effects as jobs
from .atomic import EVERYWHERE, ONE_EACH, SERVERS, in_thread, row_of
from .conftest import agrees, on_each
from .made import CHILD


@on_each(*EVERYWHERE)
def test_the_effects_and_the_end_of_the_row_are_one(application, broker, inspector, leased, run):
    lease = leased(jobs.charge, "a")
    outcome = run(lease)
    assert (outcome.log_json, outcome.is_recorded) == (b'{"result":"a"}', True)
    assert (jobs.effects(), row_of(lease).status) == (["a"], "succeeded")
    assert settle(broker, lease, outcome) == "DONE"
    assert agrees(inspector.record(lease.id))
    assert row_of(lease).repair_at is None


@on_each(*EVERYWHERE)
def test_a_body_that_fails_leaves_no_effect_and_an_open_row(application, broker, inspector, leased, run, claim):
    lease = leased(jobs.charge_and_fail, "a")
    outcome = run(lease)
    assert (outcome.delay_ms, jobs.effects(), row_of(lease).status) == (0, [], "running")
    for _ in range(2):
        settle(broker, lease, outcome)
        lease = claim()
        outcome = run(lease)
    (ending,) = application.rows.write([Ending(lease, outcome, CHILD)]).endings
    assert ending.outcome is outcome
    settle(broker, lease, outcome)
    assert (row_of(lease).status, row_of(lease).attempts) == ("dead", 3)
    assert agrees(inspector.record(lease.id))
    assert jobs.effects() == []


@on_each(*SERVERS)
def test_a_stale_run_changes_nothing_when_a_newer_one_has_ended(application, broker, inspector, leased, run, lose):
    lease = leased(jobs.charge, "a")
    newer = []

    def overtake():
        newer.append(lose(lease))
        newer.extend(in_thread(lambda: run(newer[0])))

    jobs.meanwhile["a"] = overtake
    outcome = run(lease)
    assert (newer[1].log_json, newer[1].is_recorded) == (b'{"result":"a"}', True)
    # What the row says isn't lost for Redis either, should it have forgotten the newer lease.
    assert outcome == Succeeded(b'{"result":"a"}', outcome.result_ttl_ms, True)
    assert settle(broker, lease, outcome) == "LEASE_LOST"
    assert settle(broker, newer[0], newer[1]) == "DONE"
    assert jobs.effects() == ["a"]
    assert agrees(inspector.record(lease.id))


@on_each(*SERVERS)
def test_a_stale_run_changes_nothing_when_a_newer_one_has_begun(application, broker, leased, run, lose):
    lease = leased(jobs.charge, "a")
    newer = []

    def overtake():
        newer.append(lose(lease))
        assert in_thread(lambda: application._verdicts.begin(newer[0], CHILD)) == [None]

    jobs.meanwhile["a"] = overtake
    outcome = run(lease)
    assert outcome == Released(floor=newer[0].token)
    assert settle(broker, lease, outcome) == "LEASE_LOST"
    assert jobs.effects() == []
    assert run(newer[0]).is_recorded
    assert jobs.effects() == ["a"]


@on_each(*EVERYWHERE)
def test_of_a_stale_run_that_closes_first_the_newer_one_takes_the_result(
    application, broker, inspector, leased, run, lose
):
    lease = leased(jobs.charge, "a")
    newer = []
    jobs.meanwhile["a"] = lambda: newer.append(lose(lease))
    assert run(lease).is_recorded
    jobs.meanwhile["a"] = lambda: pytest.fail("it runs again")
    outcome = run(newer[0])
    assert outcome.log_json == b'{"result":"a"}'
    assert settle(broker, newer[0], outcome) == "DONE"
    assert (inspector.record(lease.id).result, jobs.effects()) == ("a", ["a"])


@on_each("sqlite-immediate")
def test_on_sqlite_a_newer_run_begins_when_the_stale_one_has_ended(application, leased, run, lose, entry):
    connections.settings["records"]["OPTIONS"]["timeout"] = 0.1
    lease = leased(jobs.charge, "a")
    outcomes = []
    jobs.meanwhile["a"] = lambda: outcomes.extend(in_thread(lambda: run(lose(lease))))
    assert run(lease).is_recorded
    assert outcomes == [Released(5000)]
    assert jobs.effects() == ["a"]


@on_each(*EVERYWHERE)
def test_a_lost_answer_to_the_start_changes_nothing(application, leased, run):
    lease = leased(jobs.charge, "a")
    assert application._verdicts.begin(lease, CHILD) is None
    assert run(lease).is_recorded
    assert jobs.effects() == ["a"]


@pytest.mark.parametrize("is_done", [True, False])
@on_each(*EVERYWHERE)
def test_after_a_lost_answer_to_the_commit_the_row_is_asked(application, leased, run, monkeypatch, is_done):
    lease = leased(jobs.charge, "a")
    kind = type(connections["records"])
    commit, calls = kind.commit, []

    def fail_once(self):
        calls.append(self)
        if is_done or len(calls) > 1:
            commit(self)
        if len(calls) == 1:
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(kind, "commit", fail_once)
    outcome = run(lease)
    assert (outcome.log_json, outcome.is_recorded) == (b'{"result":"a"}', True)
    assert (len(calls), jobs.effects()) == (1 if is_done else 2, ["a"])


@on_each(*EVERYWHERE)
def test_a_body_is_run_again_three_times_and_then_has_failed(application, leased, run, monkeypatch, caplog):
    lease = leased(jobs.charge, "a")
    begun = []

    def refuse(self):
        begun.append(self)
        raise OperationalError("commit refused")

    with monkeypatch.context() as patch:
        patch.setattr(type(connections["records"]), "commit", refuse)
        outcome = run(lease)
    assert (len(begun), RERUNS) == (4, 3)
    assert (outcome.error.message, outcome.delay_ms) == ("commit refused", 0)
    assert (jobs.effects(), row_of(lease).status) == ([], "running")
    assert caplog.text.count("didn't come through") == 4


@on_each(*EVERYWHERE)
def test_a_task_that_was_cancelled_before_it_ran_ends_so(application, broker, inspector, leased, run):
    lease = leased(jobs.charge, "a")
    TaskRecord.objects.update(status="cancelled")
    outcome = run(lease)
    assert settle(broker, lease, outcome) == "CANCELLED"
    assert (inspector.record(lease.id).state, row_of(lease).status, jobs.effects()) == ("cancelled", "cancelled", [])


@on_each(*SERVERS)
def test_a_task_that_is_cancelled_while_it_runs_has_no_effect(application, broker, inspector, leased, run):
    lease = leased(jobs.charge, "a")
    cancel = lambda: TaskRecord.objects.update(status="cancelled")  # noqa: E731
    jobs.meanwhile["a"] = lambda: in_thread(cancel)
    outcome = run(lease)
    assert settle(broker, lease, outcome) == "CANCELLED"
    assert (inspector.record(lease.id).state, row_of(lease).status, jobs.effects()) == ("cancelled", "cancelled", [])


@on_each(*SERVERS)
def test_two_tasks_in_each_others_way_both_happen(application, broker, leased, run, inspector):
    leases = [leased(jobs.give_twice, *names) for names in (("left", "right"), ("right", "left"))]
    both = threading.Barrier(2, timeout=20)
    jobs.meanwhile.update(left=both.wait, right=both.wait)
    outcomes = in_thread(*[lambda lease=lease: run(lease) for lease in leases])
    assert all(isinstance(outcome, Succeeded) and outcome.is_recorded for outcome in outcomes), outcomes
    assert jobs.numbers() == [2, 2]


@on_each(*EVERYWHERE)
def test_an_older_copy_of_redis_gets_a_larger_token_from_the_row(application, broker, leased, run, claim):
    lease = leased(jobs.charge, "a")
    known = lease.token + 10**6
    TaskRecord.objects.update(token=known)
    outcome = run(lease)
    assert outcome == Released(floor=known)
    assert settle(broker, lease, outcome) == "DONE"
    newer = claim()
    assert (newer.token > known, newer.attempt) == (True, 1)
    assert run(newer).is_recorded
    assert jobs.effects() == ["a"]


@on_each(*ONE_EACH)
def test_a_task_whose_row_cannot_be_reached_goes_back_and_keeps_its_attempt(application, broker, leased, run, claim):
    lease = leased(jobs.charge_once, "a")
    with connections["records"].cursor() as cursor:
        cursor.execute("ALTER TABLE django_taskq_taskrecord RENAME TO elsewhere")
    outcome = run(lease)
    assert outcome == Released(5000)
    assert settle(broker, lease, outcome) == "DONE"
    assert jobs.effects() == []
    # The longer it lasts, the later is the next try.
    for lasts, shortest, longest in ((20, 20_000, 59_999), (3600, 60_000, 60_000)):
        application._verdicts._outages["records"]._since = time.monotonic() - lasts
        assert shortest <= run(lease).delay_ms <= longest
    with connections["records"].cursor() as cursor:
        cursor.execute("ALTER TABLE elsewhere RENAME TO django_taskq_taskrecord")
    broker.promote(lease.id)
    newer = claim()
    assert newer.attempt == 1
    assert run(newer).is_recorded


@on_each(*ONE_EACH)
def test_a_row_whose_burial_redis_never_heard_of_is_opened_again(application, leased, run):
    lease = leased(jobs.charge, "a")
    TaskRecord.objects.update(status="dead", token=lease.token - 1, repair_at=None)
    jobs.meanwhile["a"] = lambda: TaskRecord.objects.get(repair_at__isnull=False, status="running")
    assert run(lease).is_recorded


@on_each("sqlite", "postgresql-committed", "mariadb-repeatable")
@pytest.mark.parametrize("job", [jobs.charge, jobs.follow])
def test_a_connection_that_commits_nothing_by_itself_loses_nothing(application, leased, run, job):
    lease = leased(job, "a")
    connections["records"].close()
    connections["records"].settings_dict["AUTOCOMMIT"] = False
    outcome = run(lease)
    connections["records"].close()
    connections["records"].settings_dict["AUTOCOMMIT"] = True
    assert outcome.is_recorded is (job is jobs.charge)
    assert row_of(lease).status == ("succeeded" if job is jobs.charge else "running")
    assert jobs.effects() == ["a"] * (job is jobs.charge)


@on_each(*ONE_EACH)
def test_a_row_that_somebody_deleted_is_made_again(application, leased, run):
    lease = leased(jobs.charge, "a")
    TaskRecord.objects.all().delete()
    assert run(lease).is_recorded
    assert (row_of(lease).status, row_of(lease).is_outbox, jobs.effects()) == ("succeeded", True, ["a"])
