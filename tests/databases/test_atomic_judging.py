"""Who settles the lease of a record that has a row goes by the row, and without it says nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from django_taskq import verdicts
from django_taskq.broker.records import AttemptError
from django_taskq.models import TaskRecord
from django_taskq.pruning import Pruning
from django_taskq.worker import rows
from django_taskq.worker.endings import Ending, NotRecorded
from django_taskq.worker.outcomes import Failed, Released, Succeeded, settle
from tests.broker.helpers import lapse

from . import effects as jobs
from .atomic import ONE_EACH, row_of
from .conftest import agrees, configured, on_each
from .made import CHILD
from .routing import ALIAS
from .test_judging import reaper_of, supervisor_of

either = pytest.mark.parametrize("judge", [reaper_of, supervisor_of])
DEAD = Failed(AttemptError("builtins.OSError"), None)


@pytest.fixture
def elsewhere(entry, engine, request, tmp_path, application):
    """Give the alias of a second database, for effects."""
    if "sqlite" in entry["ENGINE"]:
        other = {**entry, "NAME": str(tmp_path / "effects.sqlite3")}
    else:
        server = engine("postgresql" if "postgresql" in entry["ENGINE"] else "mariadb")
        server.run("DROP DATABASE IF EXISTS elsewhere")
        server.run("CREATE DATABASE elsewhere")
        other = {**entry, "NAME": "elsewhere"}
    connections.settings[jobs.ELSEWHERE] = configured(other)
    call_command("migrate", "django_taskq", database=jobs.ELSEWHERE, verbosity=0)
    jobs.create(jobs.ELSEWHERE)
    yield jobs.ELSEWHERE
    connections[jobs.ELSEWHERE].close()
    del connections[jobs.ELSEWHERE]
    del connections.settings[jobs.ELSEWHERE]


@pytest.fixture
def leased_elsewhere(leased, elsewhere):
    """Give a function that claims a task whose effects go to the second database."""
    return lambda job, name: leased(replace(job, outbox=ALIAS, atomic=elsewhere), name, alias=elsewhere)


@on_each(*ONE_EACH)
@either
@pytest.mark.parametrize("job", [jobs.charge, jobs.charge_once])
def test_what_died_after_its_commit_is_completed(application, broker, leased, run, inspector, judge, job):
    lease = leased(job, "a")
    assert run(lease).is_recorded
    judge(application, broker, lease)()
    record = inspector.record(lease.id)
    assert (record.state, record.result, jobs.effects()) == ("succeeded", "a", ["a"])
    assert agrees(record)


@on_each("sqlite-immediate")
def test_what_died_right_after_its_commit_is_no_suspect(application, broker, leased, run, inspector):
    leases = [leased(jobs.charge, name) for name in "ab"]
    assert all(run(lease).is_recorded for lease in leases)
    supervisor_of(application, broker, *leases, ended=False)()
    assert {inspector.record(lease.id).state for lease in leases} == {"succeeded"}


@on_each(*ONE_EACH)
@either
def test_what_a_person_cancelled_is_ended(application, broker, leased, inspector, judge):
    lease = leased(jobs.charge, "a")
    assert application._verdicts.begin(lease, CHILD) is None
    TaskRecord.objects.update(status="cancelled")
    judge(application, broker, lease)()
    assert inspector.record(lease.id).state == "cancelled"
    assert row_of(lease).status == "cancelled"


@on_each(*ONE_EACH)
@either
@pytest.mark.parametrize("has_begun", [True, False])
def test_what_has_no_attempt_left_is_dead_in_both(application, broker, leased, run, inspector, judge, has_begun):
    lease = leased(jobs.charge_once, "a")
    assert not has_begun or application._verdicts.begin(lease, CHILD) is None
    judge(application, broker, lease)()
    record = inspector.record(lease.id)
    assert (record.state, row_of(lease).status, row_of(lease).repair_at) == ("dead", "dead", None)
    assert agrees(record)
    # The run that was given up wakes up: its effects are refused.
    outcome = run(lease)
    assert settle(broker, lease, outcome) == "LEASE_LOST"
    assert (jobs.effects(), row_of(lease).status) == ([], "dead")


@on_each(*ONE_EACH)
@either
@pytest.mark.parametrize("job", [jobs.charge, jobs.charge_once])
def test_nothing_is_decided_while_the_row_cannot_be_read(application, broker, leased, inspector, away, judge, job):
    lease = leased(job, "a")
    assert application._verdicts.begin(lease, CHILD) is None
    work = judge(application, broker, lease)
    take, bring = away
    take()
    try:
        for _ in range(2):
            assert work() <= 1.0
            assert inspector.record(lease.id).state == "leased"
    finally:
        bring()
    work()
    assert inspector.record(lease.id).state == ("dead" if job is jobs.charge_once else "waiting")


@on_each("sqlite-immediate")
def test_a_row_that_cannot_be_reached_holds_up_no_others(application, broker, leased, inspector, away):
    lost = leased(jobs.charge_once, "a")
    other = leased(replace(jobs.follow, outbox=False), "b")
    application.rows.keeps_all = False
    take, bring = away
    take()
    try:
        work = reaper_of(application, broker, lost)
        lapse(broker, other)
        assert work() <= 1.0
        assert inspector.record(lost.id).state == "leased"
        assert inspector.record(other.id).state == "waiting"
    finally:
        bring()


@on_each("sqlite-immediate")
def test_a_record_with_a_row_is_never_given_up(application, broker, leased, away, monkeypatch):
    monkeypatch.setattr(rows, "PATIENCE", 0)
    lease = leased(jobs.follow, "a")
    assert application._verdicts.begin(lease, CHILD) is None
    ending = Ending(lease, Succeeded(b'{"result":"a"}'), CHILD)
    keeper = rows.Rows(application.rows)
    take, bring = away
    take()
    for _ in range(3):
        assert keeper.write([ending]) == ([], [ending])
    bring()
    assert keeper.write([ending]) == ([ending], [])
    assert row_of(lease).status == "succeeded"


@on_each(*ONE_EACH)
def test_a_reaper_that_came_too_late_lets_the_row_go_on(application, broker, leased, run, inspector):
    lease = leased(jobs.charge_once, "a")
    assert application._verdicts.begin(lease, CHILD) is None
    reaped = Ending(lease, DEAD)
    assert application.rows.write([reaped]).endings == [reaped]
    assert row_of(lease).status == "dead"
    assert settle(broker, lease, DEAD, lapsed=True) == "HELD"
    application.rows.correct([reaped])
    assert (row_of(lease).status, row_of(lease).repair_at is None) == ("running", False)
    outcome = run(lease)
    assert settle(broker, lease, outcome) == "DONE"
    assert agrees(inspector.record(lease.id))


@on_each("sqlite-immediate")
def test_a_cancel_that_came_too_late_for_the_row_changes_no_success(application, broker, leased, run, inspector):
    lease = leased(jobs.charge, "a")
    assert run(lease).is_recorded
    broker.cancel([lease.id])
    again = Failed(AttemptError("builtins.OSError"), 0)
    assert settle(broker, lease, again) == "CANCELLED"
    application.rows.correct([Ending(lease, again, CHILD)])
    assert (row_of(lease).status, row_of(lease).result) == ("succeeded", '"a"')


@on_each("sqlite-immediate")
def test_a_reaper_takes_no_renewed_lease_for_what_a_row_says(application, broker, leased, inspector, monkeypatch):
    lease = leased(jobs.charge_once, "a")
    TaskRecord.objects.update(token=lease.token + 1, status="running")
    write = application.rows.write

    def write_and_renew(endings):
        recorded = write(endings)
        assert broker.renew([(lease.id, lease.queue, lease.token)], 30_000) == ["OK"]
        return recorded

    with monkeypatch.context() as patch:
        patch.setattr(application.rows, "write", write_and_renew)
        reaper_of(application, broker, lease)()
    assert inspector.record(lease.id).state == "leased"
    # Where nobody renewed it, the record goes on: its burial would be an older copy's.
    reaper_of(application, broker, lease)()
    assert (inspector.record(lease.id).state, row_of(lease).status) == ("waiting", "running")


@on_each("sqlite-immediate")
def test_a_reaper_gives_no_attempt_more_to_what_its_row_calls_dead(application, broker, leased, inspector):
    lease = leased(jobs.charge_once, "a")
    # As after an older copy: it was buried, retried by a person, and buried again, of all which Redis knows nothing.
    TaskRecord.objects.update(token=lease.token + 5, status="dead")

    reaper_of(application, broker, lease)()

    assert (inspector.record(lease.id).state, row_of(lease).status) == ("dead", "dead")
    assert row_of(lease).token == lease.token + 5


@on_each(*ONE_EACH)
def test_of_an_end_that_the_row_contradicts_redis_hears_what_the_row_says(application, broker, leased, run, lose):
    lease = leased(jobs.charge_once, "a")
    assert run(lease).is_recorded
    result = Succeeded(b'{"result":"a"}', is_recorded=True)
    for outcome in (DEAD, Succeeded(b'{"result":"another"}')):
        (ending,) = application.rows.write([Ending(lease, outcome, CHILD)]).endings
        assert ending.outcome in (result, outcome)
    assert row_of(lease).result == '"a"'

    lease = leased(jobs.charge, "b")
    newer = lose(lease)
    assert application._verdicts.begin(newer, CHILD) is None
    for outcome in (DEAD, Succeeded(b'{"result":"b"}')):
        (ending,) = application.rows.write([Ending(lease, outcome, CHILD)]).endings
        assert ending.outcome == Released(floor=newer.token)
    assert row_of(lease).status == "running"


@on_each(*ONE_EACH)
def test_a_task_in_the_outbox_that_is_cancelled_while_it_runs_ends_so(application, broker, leased, run, inspector):
    lease = leased(jobs.follow, "a")
    outcome = run(lease)
    TaskRecord.objects.update(status="cancelled")
    (ending,) = application.rows.write([Ending(lease, outcome, CHILD)]).endings
    assert settle(broker, lease, ending.outcome) == "CANCELLED"
    application.rows.correct([ending])
    assert (inspector.record(lease.id).state, row_of(lease).status) == ("cancelled", "cancelled")


@on_each(*ONE_EACH)
def test_many_ends_are_written_at_once(application, broker, claim, run):
    jobs.follow.enqueue_many([((number,), {}) for number in range(30)])
    leases = [claim() for _ in range(30)]
    endings = [Ending(lease, run(lease), CHILD) for lease in leases]
    TaskRecord.objects.filter(pk=leases[3].id).update(status="cancelled")
    TaskRecord.objects.filter(pk=leases[4].id).delete()
    recorded = application.rows.write(endings)
    assert recorded.error is None
    changed = [n for n, (one, other) in enumerate(zip(endings, recorded.endings, strict=True)) if one != other]
    assert changed == [3]
    assert TaskRecord.objects.filter(status="succeeded").count() == 29


@on_each("sqlite-immediate")
def test_an_end_that_cannot_be_written_holds_up_no_others(application, claim, run, monkeypatch):
    jobs.follow.enqueue_many([((number,), {}) for number in range(4)])
    leases = [claim() for _ in range(4)]
    endings = [Ending(lease, run(lease), CHILD) for lease in leases]
    unmade, refused = replace(endings[1], outcome=Succeeded(b"\xff")), endings[2]
    write_finished = verdicts.write_finished

    def refuse(finished, **given):
        write_finished([row for row in finished if row.id != refused.lease.id], **given)
        raise NotRecorded([refused.lease.id], OSError("locked"))

    monkeypatch.setattr(verdicts, "write_finished", refuse)
    recorded = application.rows.write([endings[0], unmade, refused, endings[3]])
    assert recorded.endings == [endings[0], endings[3]]
    assert recorded.error.ids == {unmade.lease.id, refused.lease.id}
    assert [row_of(lease).status for lease in leases] == ["succeeded", "running", "running", "succeeded"]


@on_each(*ONE_EACH)
def test_a_receipt_is_closed_with_the_effects_and_the_outbox_after_it(
    application, broker, leased_elsewhere, run, elsewhere, inspector
):
    lease = leased_elsewhere(jobs.charge, "a")
    outcome = run(lease)
    assert not outcome.is_recorded
    assert (row_of(lease, elsewhere).status, row_of(lease).status) == ("succeeded", "running")
    assert row_of(lease, elsewhere).is_outbox is False
    (ending,) = application.rows.write([Ending(lease, outcome, CHILD)]).endings
    assert settle(broker, lease, ending.outcome) == "DONE"
    assert row_of(lease).status == "succeeded"
    assert jobs.effects(elsewhere) == ["a"]
    assert agrees(inspector.record(lease.id))


@on_each(*ONE_EACH)
@either
def test_a_crash_between_receipt_and_outbox_repeats_nothing(
    application, broker, leased_elsewhere, run, elsewhere, inspector, judge
):
    lease = leased_elsewhere(jobs.charge, "a")
    run(lease)
    judge(application, broker, lease)()
    record = inspector.record(lease.id)
    assert (record.state, record.result, row_of(lease).status) == ("succeeded", "a", "succeeded")
    assert jobs.effects(elsewhere) == ["a"]


@on_each(*ONE_EACH)
def test_the_next_lease_takes_the_result_of_the_receipt(
    application, broker, leased_elsewhere, run, lose, elsewhere, inspector
):
    lease = leased_elsewhere(jobs.charge, "a")
    run(lease)
    newer = lose(lease)
    outcome = run(newer)
    assert (outcome.log_json, outcome.is_recorded) == (b'{"result":"a"}', False)
    (ending,) = application.rows.write([Ending(newer, outcome, CHILD)]).endings
    assert settle(broker, newer, ending.outcome) == "DONE"
    assert (jobs.effects(elsewhere), row_of(lease).status) == (["a"], "succeeded")
    assert agrees(inspector.record(lease.id))


@on_each(*ONE_EACH)
def test_a_burial_closes_the_receipt_first(application, broker, leased_elsewhere, run, elsewhere):
    lease = leased_elsewhere(jobs.charge, "a")
    assert application._verdicts.begin(lease, CHILD) is None
    (ending,) = application.rows.write([Ending(lease, DEAD, CHILD)]).endings
    assert ending.outcome is DEAD
    assert (row_of(lease, elsewhere).status, row_of(lease).status) == ("dead", "dead")
    assert run(lease) == Released(floor=lease.token)
    assert jobs.effects(elsewhere) == []


@on_each("sqlite-immediate")
def test_old_receipts_are_deleted_as_other_rows(application, leased_elsewhere, run, elsewhere, monkeypatch):
    monkeypatch.setattr("django_taskq.pruning.record_aliases", lambda keeps_records: {ALIAS, elsewhere})
    lease = leased_elsewhere(jobs.charge, "a")
    run(lease)
    Pruning("default", 1000).work()
    assert row_of(lease, elsewhere).status == "succeeded"
    TaskRecord.objects.using(elsewhere).update(finished_at=timezone.now() - timedelta(seconds=2000))
    Pruning("default", 1000).work()
    assert not TaskRecord.objects.using(elsewhere).exists()
    assert row_of(lease).status == "running"
