"""A worker that is killed, or stopped until another has its task, at any moment of an atomic task."""

from __future__ import annotations

import os
import signal

import pytest
from django.db import connections

from django_taskq.models import TaskRecord
from tests.waiting import wait_until

from . import effects as jobs
from .atomic import ONE_EACH, SERVERS
from .conftest import agrees, on_each
from .effects import charge_for_ever, charge_slowly

pytestmark = pytest.mark.slow

MOMENTS = {
    "before the start": ("before", "django_taskq.fence:start"),
    "in the body": ("after", "tests.databases.effects:add"),
    "before the close": ("before", "django_taskq.fence:close"),
    "before the commit": ("after", "django_taskq.fence:close"),
    "after the commit": ("after", "django_taskq.effects:Effects._run"),
    "before it is settled": ("after", "django_taskq.execution:Application.perform"),
}
at_each_moment = pytest.mark.parametrize("moment", MOMENTS)
ON_SERVERS = tuple(name for name in ONE_EACH if name in SERVERS)


@pytest.fixture
def tables(database):
    jobs.create()


@on_each(*ONE_EACH)
@at_each_moment
def test_a_child_that_is_killed_leaves_its_effects_once(tables, start_worker, ended, noted, moment):
    start_worker("--threads", "1", fault=(*MOMENTS[moment], "kill"), options={"lease_seconds": 1})
    (record,) = ended(charge_slowly.enqueue("a"), timeout=40)
    noted("struck")
    assert (record.state, record.result, jobs.effects()) == ("succeeded", "a", ["a"])
    assert agrees(record)


@on_each(*ON_SERVERS)
@at_each_moment
def test_a_stale_worker_that_wakes_up_repeats_nothing(tables, start_worker, ended, noted, inspector, moment):
    stale = start_worker(
        "--name", "stale", "--threads", "1", fault=(*MOMENTS[moment], "stop"), options={"lease_seconds": 1}
    )
    task = charge_slowly.enqueue("a")
    noted("struck")
    token = inspector.record(task.id).token
    start_worker("--name", "other", "--threads", "1", options={"lease_seconds": 1})
    if moment == "before the commit":
        # The other one waits for what the stale transaction has closed.
        wait_until(lambda: inspector.record(task.id).token > token, timeout=20)
    else:
        ended(task, timeout=40)
    jobs.note("continue")
    os.killpg(stale.pid, signal.SIGCONT)
    (record,) = ended(task, timeout=40)
    assert stale.stop() == 0
    assert (record.state, record.result, jobs.effects()) == ("succeeded", "a", ["a"])
    # The row may tell of an earlier attempt than Redis, if that is the one that did it.
    row = TaskRecord.objects.get(pk=task.id)
    assert (row.status, row.result) == ("succeeded", '"a"')
    assert row.token in {attempt.token for attempt in record.history}


@on_each(*ONE_EACH)
def test_a_time_limit_undoes_the_effects(tables, start_worker, ended):
    start_worker("--threads", "1")
    (record,) = ended(charge_for_ever.enqueue("a"))
    assert (record.state, record.history[-1].error.error.rpartition(".")[2]) == ("dead", "TaskTimeout")
    assert jobs.effects() == []
    assert agrees(record)


@on_each(*ONE_EACH)
def test_many_tasks_on_several_workers_have_one_effect_each(tables, start_worker, ended):
    for number in range(2):
        start_worker("--name", f"w{number}", "--threads", "4", options={"lease_seconds": 1})
    results = charge_slowly.enqueue_many([((f"{number:03}",), {}) for number in range(60)])
    records = ended(*results, timeout=50)
    assert all(agrees(record) for record in records)
    assert jobs.effects() == [f"{number:03}" for number in range(60)]


@on_each(*ON_SERVERS)
def test_sessions_that_are_killed_in_the_middle_cost_no_effect_and_double_none(
    request, tables, engine, start_worker, ended, noted, notes
):
    server = engine(request.node.callspec.params["entry"].partition("-")[0])
    start_worker("--threads", "4", options={"lease_seconds": 1})
    results = [charge_slowly.enqueue(str(number), until="go") for number in range(4)]
    noted(*[f"begin {number}" for number in range(4)])
    connections["records"].close()
    server.kill_sessions()
    jobs.note("go")
    records = ended(*results, timeout=40)
    assert {record.state for record in records} == {"succeeded"}
    assert jobs.effects() == ["0", "1", "2", "3"]
