"""What a person ends or begins again, in each database: the row goes first, and whoever runs the task goes by it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from django_taskq.closing import Closing
from django_taskq.compat import task_backends
from django_taskq.models import TaskRecord
from django_taskq.purging import purge
from django_taskq.worker.endings import Ending
from django_taskq.worker.outcomes import settle
from tests.app.outboxes import duty
from tests.broker.helpers import read, score

from . import effects as jobs
from .atomic import ONE_EACH, SERVERS, in_thread, row_of
from .conftest import nothing_commits_by_itself, on_each
from .made import CHILD


@pytest.fixture
def closing(inspector):
    return Closing(inspector, keeps_rows=False)


@pytest.fixture
def bury(application, broker, leased, run):
    """Give a function that lets a task fail for good, and returns its lease and time of death."""

    def bury():
        jobs.meanwhile["a"] = lambda: 1 / 0
        lease = leased(jobs.charge_once, "a")
        (ending,) = application.rows.write([Ending(lease, run(lease), CHILD)]).endings
        assert settle(broker, lease, ending.outcome) == "DONE"
        assert row_of(lease).status == "dead"
        return lease, score(broker, lease.id, "dead", "default")

    return bury


@on_each(*ONE_EACH)
def test_a_retried_letter_runs_under_its_row(broker, closing, bury, claim, run):
    lease, died_at = bury()
    assert closing.retry([(lease.id, died_at)]) == ["DONE"]
    assert (row_of(lease).status, row_of(lease).attempts, row_of(lease).finished_at) == ("waiting", 0, None)
    assert row_of(lease).repair_at > timezone.now()
    newer = claim()
    assert settle(broker, newer, run(newer)) == "DONE"
    assert jobs.effects() == ["a"]
    assert (row_of(lease).status, row_of(lease).result, row_of(lease).repair_at) == ("succeeded", '"a"', None)
    assert read(broker, lease.id).state == "succeeded"


@on_each(*ONE_EACH)
@pytest.mark.parametrize("verb", ["discard", "cancel"])
def test_what_was_ended_stays_so_when_redis_forgets_it(broker, closing, bury, leased, verb):
    if verb == "discard":
        lease, died_at = bury()
        assert closing.discard([(lease.id, died_at)]) == ["DONE"]
    else:
        lease = leased(jobs.charge, "a")
        broker.release(lease)
        assert closing.cancel([lease.id]) == ["DONE"]
    assert (row_of(lease).status, row_of(lease).repair_at) == ("cancelled", None)
    broker.client.flushall()
    repair()
    assert not broker.client.exists(broker.keys.task(lease.id))


@on_each(*ONE_EACH)
def test_a_purge_ends_what_waits_and_what_redis_has_lost(broker, inspector, application):
    jobs.follow.enqueue_many([((str(number),), {}) for number in range(5)])
    broker.client.flushall()
    jobs.follow.enqueue_many([((str(number),), {}) for number in range(5)])
    words = [word for page in purge(inspector, "default", "default", False) for word in page]
    assert sorted(words) == ["DONE"] * 5 + ["MISSING"] * 5
    assert {*TaskRecord.objects.values_list("status", "repair_at")} == {("cancelled", None)}
    broker.client.flushall()
    repair()
    assert inspector.queues() == []


@on_each(*ONE_EACH)
def test_rows_are_closed_where_nothing_commits_by_itself(broker, closing, leased):
    lease = leased(jobs.charge, "a")
    with nothing_commits_by_itself():
        assert closing.cancel([lease.id]) == ["ASKED"]
    assert row_of(lease).status == "cancelled"


@on_each(*SERVERS)
def test_a_task_that_is_cancelled_while_it_runs_leaves_no_effect(broker, closing, leased, run):
    lease = leased(jobs.charge, "a")
    words = []
    jobs.meanwhile["a"] = lambda: words.extend(in_thread(lambda: closing.cancel([lease.id])))
    outcome = run(lease)
    assert words == [["ASKED"]]
    assert settle(broker, lease, outcome) == "CANCELLED"
    assert (jobs.effects(), row_of(lease).status) == ([], "cancelled")
    assert read(broker, lease.id).state == "cancelled"


@on_each(*SERVERS)
def test_a_cancel_that_comes_while_the_effects_are_committed_changes_nothing(broker, closing, leased, run):
    lease = leased(jobs.charge, "a")
    outcome = run(lease)
    assert closing.cancel([lease.id]) == ["ASKED"]
    assert settle(broker, lease, outcome) == "DONE"
    assert (jobs.effects(), row_of(lease).status) == (["a"], "succeeded")


def repair():
    duty(task_backends["default"]).work()
