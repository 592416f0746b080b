"""Who decides about a lease that nobody answers for reads its row first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from django_taskq.broker.records import AttemptError, Claim
from django_taskq.models import TaskRecord
from django_taskq.recording import Recorder
from django_taskq.worker.board import Board
from django_taskq.worker.endings import Ending, NotRecorded, Recorded
from django_taskq.worker.exceptions import WorkerLost
from django_taskq.worker.maintenance import Reaper
from django_taskq.worker.outcomes import Failed, Succeeded
from django_taskq.worker.queues import Queues
from django_taskq.worker.recovery import Recovery
from django_taskq.worker.settings import Settings
from tests.broker.helpers import lapse

from . import jobs
from .conftest import agrees, on_each
from .made import CHILD

DONE = Succeeded(b'{"result":42}')
ONCE, OFTEN = jobs.fail, jobs.give
nonces = iter(range(1, 10**6))


@pytest.fixture
def application(database, broker):
    return SimpleNamespace(broker=broker, rows=Recorder("default", broker), buried=lambda lease, error: None)


@pytest.fixture
def claim(broker):
    """Give a function that enqueues and claims, as one child."""

    def claim(job):
        job.enqueue("x")
        (lease,) = broker.claim(Claim(CHILD, next(nonces), 1, 30_000, ("default",))).leases
        return lease

    return claim


def reaper_of(application, broker, *leases):
    """Return the work of a reaper that finds these leases lapsed."""
    lapse(broker, *leases, ago=1000)
    reaper = Reaper(application, 30.0)
    reaper._not_before = 0.0
    return reaper.work


def supervisor_of(application, broker, *leases, ended=True):
    """Return the work of a supervisor whose child died with these leases, their runs `ended` but not settled."""
    settings = Settings(name="w", queues=("default",), threads=4, coroutines=0)
    board = Board(settings.slots)
    for slot, lease in enumerate(leases):
        board.occupy(slot, lease)
        board.begin(slot)
        if ended:
            board.end(slot)
    recovery = Recovery(application, settings, Queues(settings, broker))
    recovery.add(SimpleNamespace(id=CHILD, board=board, cause=WorkerLost, culprits=(), is_alone=False))
    return recovery.work


either = pytest.mark.parametrize("judge", [reaper_of, supervisor_of])


@on_each()
@either
@pytest.mark.parametrize("job", [ONCE, OFTEN])
def test_what_its_row_says_has_succeeded_is_completed_with_that_result(
    application, broker, claim, inspector, judge, job
):
    lease = claim(job)
    application.rows.write([Ending(lease, DONE, CHILD)])
    judge(application, broker, lease)()
    record = inspector.record(lease.id)
    assert (record.state, record.result) == ("succeeded", 42)
    assert agrees(record)


def test_of_several_that_ended_none_runs_again(application, broker, claim, inspector):
    leases = [claim(OFTEN), claim(OFTEN)]
    application.rows.write([Ending(lease, DONE, CHILD) for lease in leases])
    supervisor_of(application, broker, *leases)()
    assert {inspector.record(lease.id).state for lease in leases} == {"succeeded"}


@either
def test_a_row_under_an_older_token_decides_nothing(application, broker, claim, inspector, judge):
    lease = claim(ONCE)
    application.rows.write([Ending(lease, DONE, CHILD)])
    TaskRecord.objects.update(token=lease.token - 1)
    judge(application, broker, lease)()
    record = inspector.record(lease.id)
    assert record.state == "dead"
    assert agrees(record)


@on_each()
@either
@pytest.mark.parametrize("job", [ONCE, OFTEN])
def test_nothing_is_decided_while_the_row_cannot_be_read(application, broker, claim, inspector, away, judge, job):
    lease = claim(job)
    application.rows.write([Ending(lease, DONE, CHILD)])
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
    assert (inspector.record(lease.id).state, inspector.record(lease.id).result) == ("succeeded", 42)


@on_each()
def test_under_its_own_token_a_row_that_says_succeeded_stays(application, claim):
    lease = claim(ONCE)
    application.rows.write([Ending(lease, DONE, CHILD)])
    application.rows.write([Ending(lease, Failed(AttemptError("builtins.OSError"), None), CHILD)])
    row = TaskRecord.objects.get()
    assert (row.status, row.result) == ("succeeded", "42")


def test_leases_whose_rows_are_refused_hold_up_no_others(application, broker, claim, inspector, monkeypatch):
    def refuse(endings):
        return Recorded([], NotRecorded([ending.lease.id for ending in endings], OSError("read only")))

    refused = [claim(ONCE) for _ in range(2100)]
    others = [claim(OFTEN) for _ in range(101)]
    work = reaper_of(application, broker, *refused)
    lapse(broker, *others)
    with monkeypatch.context() as patch:
        patch.setattr(application.rows, "write", refuse)
        assert 0 < work() <= 3.0  # the more wait, the longer is the rest
    assert {record.state for record in inspector.records([lease.id for lease in refused])} == {"leased"}
    assert {record.state for record in inspector.records([lease.id for lease in others])} == {"waiting"}
    work()
    assert {record.state for record in inspector.records([lease.id for lease in refused])} == {"dead"}
