"""Real workers write the rows of what they ran, and these agree with Redis."""

from __future__ import annotations

import os
import signal

import pytest
from django.conf import settings
from django.test import override_settings

from django_taskq.compat import task_backends
from django_taskq.models import TaskRecord
from tests.waiting import wait_until

from . import jobs
from .conftest import agrees, on_each

pytestmark = pytest.mark.slow


def safe(text):
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.fixture
def kept():
    """Let this process's backend keep rows, too."""
    entry = settings.TASKS["default"]
    options = {**entry["OPTIONS"], "records": "finished"}
    with override_settings(TASKS={"default": {**entry, "OPTIONS": options}}):
        yield task_backends["default"]


@on_each()
@pytest.mark.parametrize("use_tz", [True, False])
def test_every_task_that_ended_has_a_row_that_agrees_with_redis(database, start_worker, ended, use_tz):
    tasks = [
        jobs.give.enqueue({"a": [1, None, "x"]}),
        jobs.agive.using(priority=5, queue_name="mail", idempotency_key="one").enqueue(2),
        jobs.give.enqueue(None),
        jobs.fail_until.enqueue(3, "twice"),
        jobs.fail.enqueue("no luck"),
    ]
    start_worker(use_tz=use_tz, time_zone="America/New_York")
    with override_settings(USE_TZ=use_tz, TIME_ZONE="America/New_York"):
        assert all(agrees(record) for record in ended(*tasks))
        assert TaskRecord.objects.count() == len(tasks)
        assert {row.finished_at.tzinfo is None for row in TaskRecord.objects.all()} == {not use_tz}


@on_each()
def test_a_result_is_read_from_its_row_when_redis_has_forgotten_it(database, start_worker, ended, kept, redis_client):
    tasks = [jobs.give.enqueue([1, "é"]), jobs.fail.enqueue("no luck"), jobs.fail_until.enqueue(2, "once")]
    start_worker()
    ended(*tasks)
    before = [kept.get_result(task.id) for task in tasks]
    redis_client.flushall()
    after = [kept.get_result(task.id) for task in tasks]
    assert [each.status for each in after] == ["SUCCESSFUL", "FAILED", "SUCCESSFUL"]
    for one, other in zip(before, after, strict=True):
        for name in ("id", "status", "args", "kwargs", "errors", "worker_ids", "enqueued_at", "started_at", "backend"):
            assert getattr(one, name) == getattr(other, name)
        assert one.task == other.task
    assert after[0].return_value == [1, "é"]


@on_each()
def test_odd_text_never_makes_a_task_run_again(database, start_worker, ended):
    results = [jobs.give_odd.enqueue(name) for name in jobs.ODD_TEXTS]
    errors = [jobs.raise_odd.enqueue(name) for name in jobs.ODD_TEXTS]
    start_worker()
    records = ended(*results, *errors)
    assert all(agrees(record) for record in records)
    assert {record.attempts for record in records} == {1}
    for text, returned, raised in zip(jobs.ODD_TEXTS.values(), records, records[len(results) :], strict=False):
        shown = safe(text)
        assert returned.result == {"text": [shown], safe(text[:10]): 1}
        message = raised.history[0].error.message
        assert message == shown or "bytes cut]" in message


@on_each()
def test_c73_rows_go_where_the_router_sends_them(database, start_worker, ended):
    task = jobs.give.enqueue(1)
    start_worker()
    (record,) = ended(task)
    assert agrees(record)
    # The worker's `default` is a database in memory, without any table: nothing was asked of it.
    assert TaskRecord.objects.using(database).filter(pk=task.id).exists()


@on_each("sqlite", "postgresql")
def test_a_task_that_was_cancelled_while_it_ran_has_such_a_row(database, start_worker, ended, noted, notes, broker):
    tasks = [job.enqueue("a", until="go") for job in (jobs.count_then_fail,)]
    start_worker()
    noted("begin a")
    broker.cancel([task.id for task in tasks])
    jobs.note("go")
    (record,) = ended(*tasks)
    assert record.state == "cancelled"
    wait_until(lambda: TaskRecord.objects.filter(pk=record.id).exists())
    assert agrees(record)


@on_each()
def test_a_worker_deletes_old_rows(database, start_worker, ended):
    task = jobs.give.enqueue(1)
    worker = start_worker("--threads", "4", options={"records_ttl": 1})
    ended(task)
    assert "that makes up to 10 connections" in worker.log
    wait_until(lambda: not TaskRecord.objects.exists(), timeout=20)


@on_each()
def test_c51_an_exception_that_cannot_be_shown_has_a_row(database, start_worker, ended):
    tasks = [jobs.raise_unshowable.enqueue(), jobs.raise_chain.enqueue(400)]
    start_worker()
    unshowable, chain = ended(*tasks)
    assert agrees(unshowable)
    assert agrees(chain)
    assert unshowable.history[0].error.error.endswith("Unshowable")
    assert "ExceptionGroup" in chain.history[0].error.traceback


@on_each()
def test_what_the_supervisor_buries_has_a_row(database, start_worker, ended):
    task = jobs.die.enqueue()
    start_worker()
    (record,) = ended(task)
    assert agrees(record)
    assert record.history[-1].error.reason == "worker lost"


@on_each("sqlite", "postgresql")
def test_what_a_reaper_buries_has_a_row_that_the_stale_worker_cannot_change(
    database, start_worker, ended, noted, notes
):
    task = jobs.count_once.enqueue("a", until="go")
    stale = start_worker("--name", "stale", options={"lease_seconds": 1})
    noted("begin a")
    os.killpg(stale.pid, signal.SIGSTOP)
    start_worker("--name", "reaper", options={"lease_seconds": 1})
    (record,) = ended(task)
    jobs.note("go")
    os.killpg(stale.pid, signal.SIGCONT)
    noted("end a")
    assert stale.stop() == 0
    assert agrees(record)
