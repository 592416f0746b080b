"""Where Redis refuses what a row already says, the row is made to say what Redis holds."""

from __future__ import annotations

import pytest
from django.db import connections

from django_taskq import recording
from django_taskq.broker.records import AttemptError, Claim
from django_taskq.models import TaskRecord
from django_taskq.recording import Recorder
from django_taskq.worker.endings import Ending, NotRecorded
from django_taskq.worker.outcomes import Failed, Succeeded, settle
from tests.broker.helpers import lapse

from . import jobs
from .conftest import agrees, on_each
from .made import CHILD
from .routing import ToRecords

ERROR = AttemptError("builtins.OSError", "no", "Traceback: no")
DONE, AGAIN, DEAD = Succeeded(b'{"result":42}'), Failed(ERROR, 0), Failed(ERROR, None)
nonces = iter(range(1, 10**6))


@pytest.fixture
def recorder(database, broker):
    return Recorder("default", broker)


@pytest.fixture
def claim(broker):
    """Give a function that claims what is ready, as one child."""

    def claim(child=CHILD):
        (lease,) = broker.claim(Claim(child, next(nonces), 1, 30_000, ("default",))).leases
        return lease

    return claim


def row_of(lease):
    return TaskRecord.objects.filter(pk=lease.id).first()


@on_each()
def test_a_row_is_written_under_its_token_and_then_settled(recorder, broker, claim, inspector):
    task = jobs.give.enqueue(1)
    ending = Ending(claim(), DONE, CHILD)
    recorder.write([ending])
    assert settle(broker, ending.lease, ending.outcome) == "DONE"
    recorder.write([ending])  # as after a lost reply
    assert agrees(inspector.record(task.id))


@on_each()
def test_the_row_after_retries_holds_what_redis_knew_of_them(recorder, broker, claim, inspector):
    task = jobs.give.enqueue(1)
    for _ in range(2):
        settle(broker, claim("worker.earlier1"), AGAIN)
    ending = Ending(claim(), DONE, CHILD)
    recorder.write([ending])
    settle(broker, ending.lease, ending.outcome)
    assert agrees(inspector.record(task.id))
    assert row_of(ending.lease).attempts == 3


@on_each()
def test_a_stale_worker_that_writes_after_the_reaper_is_corrected(recorder, broker, claim, inspector):
    task = jobs.fail.enqueue("x")
    stale = Ending(claim(), DONE, CHILD)
    # The reaper buries it under the same token.
    lapse(broker, stale.lease)
    reaped = Ending(stale.lease, DEAD)
    recorder.write([reaped])
    assert settle(broker, stale.lease, DEAD, lapsed=True) == "DONE"
    recorder.write([stale])
    assert row_of(stale.lease).status == "succeeded"
    assert settle(broker, stale.lease, stale.outcome) == "LEASE_LOST"
    recorder.correct([stale])
    assert agrees(inspector.record(task.id))
    assert row_of(stale.lease).status == "dead"


@on_each()
def test_a_row_of_a_record_that_goes_on_is_taken_back(recorder, broker, claim):
    jobs.give.enqueue(1)
    stale = Ending(claim(), DONE, CHILD)
    lapse(broker, stale.lease)
    settle(broker, stale.lease, AGAIN, lapsed=True)
    recorder.write([stale])
    recorder.correct([stale])
    assert row_of(stale.lease) is None


@on_each()
def test_a_row_that_another_wrote_meanwhile_is_left_alone(recorder, broker, claim, inspector):
    task = jobs.give.enqueue(1)
    stale = Ending(claim(), DEAD, CHILD)
    recorder.write([stale])
    lapse(broker, stale.lease)
    settle(broker, stale.lease, AGAIN, lapsed=True)
    newer = Ending(claim("worker.newer111"), DONE, "worker.newer111")
    recorder.write([newer])
    recorder.correct([stale])  # Redis still has the newer lease
    assert row_of(newer.lease).token == newer.lease.token
    settle(broker, newer.lease, newer.outcome)
    assert agrees(inspector.record(task.id))


@on_each()
def test_a_reaper_that_came_too_late_takes_its_row_back(recorder, broker, claim, inspector):
    task = jobs.fail.enqueue("x")
    lease = claim()
    reaped = Ending(lease, DEAD)
    recorder.write([reaped])
    assert settle(broker, lease, DEAD, lapsed=True) == "HELD"
    recorder.correct([reaped])
    assert row_of(lease) is None
    ending = Ending(lease, DONE, CHILD, ended_at=reaped.ended_at + 1)
    recorder.write([ending])
    recorder.correct([reaped])  # once more, late: the row isn't the reaper's
    settle(broker, lease, ending.outcome)
    assert agrees(inspector.record(task.id))


@on_each()
def test_a_task_that_was_cancelled_at_the_last_moment_has_such_a_row(recorder, broker, claim, inspector):
    task = jobs.fail.enqueue("x")
    ending = Ending(claim(), DEAD, CHILD)
    recorder.write([ending])
    broker.cancel([task.id])
    assert settle(broker, ending.lease, ending.outcome) == "CANCELLED"
    recorder.correct([ending])
    assert agrees(inspector.record(task.id))
    assert row_of(ending.lease).status == "cancelled"


@on_each()
def test_what_redis_has_forgotten_stays_as_it_is(recorder, claim, redis_client):
    jobs.give.enqueue(1)
    ending = Ending(claim(), DONE, CHILD)
    recorder.write([ending])
    redis_client.flushall()
    recorder.correct([ending])
    assert row_of(ending.lease).status == "succeeded"


def test_a_row_that_cannot_be_made_costs_the_others_nothing(recorder, broker, claim):
    jobs.give.enqueue_many([((n,), {}) for n in range(3)])
    endings = [Ending(claim(), DONE, CHILD) for _ in range(3)]
    broken = Ending(endings[1].lease, Succeeded(b"\xff"), CHILD)
    recorded = recorder.write([endings[0], broken, endings[2]])
    assert recorded.endings == [endings[0], endings[2]]
    assert recorded.error.ids == {broken.lease.id}
    assert [row_of(ending.lease) is not None for ending in endings] == [True, False, True]


def test_of_the_databases_of_single_tasks_one_is_enough_to_go_on(broker, database, monkeypatch):
    keeper, databases = Recorder("default", broker, keeps_all=False), {"none", database}
    monkeypatch.setattr(recording, "record_aliases", lambda keeps_records: databases)
    monkeypatch.setattr(ToRecords, "db_for_write", lambda *given, **hints: "none")
    keeper.probe()
    with connections[database].execute_wrapper(lambda *given: 1 / 0), pytest.raises(NotRecorded):
        keeper.probe()
    databases.clear()
    keeper.probe()


def test_every_method_says_when_the_database_takes_no_rows(recorder, database, broker, claim):
    jobs.give.enqueue(1)
    ending = Ending(claim(), DONE, CHILD)
    settle(broker, ending.lease, ending.outcome)
    recorder.probe()
    with connections[database].cursor() as cursor:
        cursor.execute("DROP TABLE django_taskq_taskrecord")
    for method in (recorder.write, recorder.read):
        recorded = method([ending])
        assert recorded.endings == []
        assert recorded.error.ids == {ending.lease.id}
    with pytest.raises(NotRecorded):
        recorder.correct([ending])
    with pytest.raises(NotRecorded):
        recorder.probe()
    recorder.rest()
