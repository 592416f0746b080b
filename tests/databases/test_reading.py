"""A row is read back as the record that it was made of."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test import override_settings

from django_taskq import results, rows
from django_taskq.broker.records import Attempt, AttemptError, State
from django_taskq.models import TaskRecord
from django_taskq.writing import write_finished

from .conftest import on_each
from .made import CHILD, NOON, failed, lease, row, stored, succeeded, unsaved

ERROR = AttemptError("builtins.OSError", "no", "Traceback: no", "time limit")


def shown(result):
    """Return all that a result says, its task by its path."""
    said = {each.name: getattr(result, each.name) for each in fields(result)}
    return {**said, "task": result.task.module_path, "queue": result.task.queue_name, "priority": result.task.priority}


@on_each()
@pytest.mark.parametrize(("use_tz", "zone"), [(True, "UTC"), (False, "Asia/Tokyo"), (True, "America/New_York")])
def test_a_result_says_the_same_from_redis_and_from_its_row(database, use_tz, zone):
    with override_settings(USE_TZ=use_tz, TIME_ZONE=zone):
        connections[database].close()  # with the old zone
        for ending in (succeeded(lease(), [1, "x"]), failed(lease(run_after=NOON + 500), ERROR)):
            write_finished([row(ending)])
            found = stored(ending.lease)
            assert (found.finished_at.tzinfo is not None) == use_tz
            from_record = results.from_record(rows.to_record(unsaved(row(ending))), "default")
            assert shown(rows.to_result(found)) == shown(from_record)
            assert rows.to_record(found).finished_at == NOON + 2000


@on_each()
def test_a_row_that_follows_retries_tells_of_each_attempt(database):
    held = lease(token=NOON + 3, attempt=3)
    known = rows.to_record(unsaved(row(failed(held, ERROR))))
    earlier = tuple(
        Attempt(number, NOON + number, NOON + 1000 * number, NOON + 1000 * number + 5, f"worker.{number}", ERROR)
        for number in (1, 2)
    )
    values = {each.name: getattr(known, each.name) for each in fields(known)} | {
        "state": State.LEASED,
        "history": earlier,
        "worker": CHILD,
        "started_at": NOON + 1000,
        "last_attempted_at": NOON + 3000,
    }
    known = type(known)(**values)
    write_finished([rows.from_ending(succeeded(held, 7, ended_at=NOON + 3500), "default", known)])
    result = rows.to_result(stored(held))
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 7, 3)
    assert result.worker_ids == ["worker.1", "worker.2", CHILD]
    assert [error.exception_class_path for error in result.errors] == ["builtins.OSError"] * 2
    assert result.started_at == datetime(2026, 11, 29, 12, 0, 1, tzinfo=UTC)
    assert result.last_attempted_at - result.started_at == timedelta(seconds=2)


@on_each()
def test_a_repeated_write_does_not_count_an_attempt_twice(database):
    held = lease()
    once = rows.to_record(unsaved(row(failed(held, ERROR))))
    again = rows.from_ending(failed(held, ERROR), "default", once)
    assert len(rows.to_record(unsaved(again)).history) == 1


@on_each()
def test_a_task_that_was_asked_to_end_is_cancelled(database):
    ending = failed(lease(), ERROR, cancelled=True)
    write_finished([row(ending)])
    assert stored(ending.lease).status == "cancelled"
    assert rows.to_result(stored(ending.lease)).status == "FAILED"


@on_each()
def test_only_the_rows_of_a_backend_are_found(database):
    held = lease()
    write_finished([row(succeeded(held))])
    assert rows.find(held.id, "default").return_value == 3
    assert rows.find(held.id, "elsewhere") is None
    assert rows.find(lease().id, "default") is None


@on_each()
def test_rows_that_somebody_wrote_by_hand_are_still_shown(database):
    odd = {"envelope": "{", "result": "[", "history": '[1, {"error": 5, "child": null}]'}
    TaskRecord.objects.create(
        id="byhand", backend="default", task="gone.task", queue="q", status="succeeded", attempts=1,
        enqueued_at=datetime(2026, 1, 1, tzinfo=UTC), **odd,
    )  # fmt: skip
    result = rows.find("byhand", "default")
    assert (result.status, result.return_value, result.args) == ("SUCCESSFUL", None, [])
    TaskRecord.objects.update(history="{}", status="duplicate")
    assert rows.find("byhand", "default").status == "FAILED"
