"""What a result says through attempts, retries and endings, and of records that can't be read."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from django_taskq import results
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.exceptions import UnreadableRecord
from django_taskq.broker.ids import new_id
from django_taskq.broker.records import MOST_NAMELESS, AttemptError, Claim, NewRecord
from django_taskq.compat import TaskResultMismatch, TaskResultStatus
from tests.app import tasks
from tests.app.test_backend import task_settings

ERROR = AttemptError("builtins.ValueError", "no", "Traceback: no")


class Line:
    """Claims and settles as workers of several names do."""

    def __init__(self, backend):
        self.broker = backend.broker
        self.nonce = 0

    def claim(self, child, queue="default"):
        self.nonce += 1
        return self.broker.claim(Claim(child, self.nonce, 1, 30_000, (queue,))).leases[0]

    def fail(self, child):
        self.broker.retry(self.claim(child), 0, ERROR.to_json())


@pytest.fixture
def line(backend):
    return Line(backend)


def test_a_running_task(backend, line):
    result = tasks.add.enqueue(1)
    line.claim("w.one")
    result.refresh()

    assert result.status == TaskResultStatus.RUNNING
    assert (result.attempts, result.worker_ids) == (1, ["w.one"])
    assert result.started_at == result.last_attempted_at
    assert timezone.now() - result.started_at < timedelta(seconds=5)
    assert result.finished_at is None
    with pytest.raises(ValueError, match="not finished yet"):
        result.return_value


def test_a_succeeded_task(backend, line):
    result = tasks.add.enqueue(1)
    backend.broker.complete(line.claim("w.one"), json.dumps({"result": {"sum": [1, 2.5]}}).encode())
    result.refresh()

    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.is_finished
    assert result.return_value == {"sum": [1, 2.5]}
    assert result.started_at <= result.finished_at
    assert (result.errors, result.worker_ids) == ([], ["w.one"])


def test_c59_a_result_that_is_not_kept(backend, line):
    result = tasks.send.enqueue(1)
    backend.broker.complete(line.claim("w.one", "mail"), b"{}", result_ttl_ms=0)
    result.refresh()

    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value is None


def test_a_task_that_waits_for_its_next_attempt(backend, line):
    result = tasks.add.enqueue(1)
    line.fail("w.one")
    line.fail("w.two")
    result.refresh()

    assert result.status == TaskResultStatus.READY
    assert (result.attempts, result.worker_ids) == (2, ["w.one", "w.two"])
    assert [error.exception_class for error in result.errors] == [ValueError, ValueError]
    assert result.errors[0].traceback == "Traceback: no"
    assert result.finished_at is None
    assert result.started_at <= result.last_attempted_at


def test_a_task_that_succeeds_at_last_keeps_its_errors(backend, line):
    result = tasks.add.enqueue(1)
    line.fail("w.one")
    backend.broker.complete(line.claim("w.two"), b'{"result":3}')
    result.refresh()

    assert (result.return_value, result.worker_ids, len(result.errors)) == (3, ["w.one", "w.two"], 1)


def test_a_dead_letter_has_failed(backend, line):
    result = tasks.add.enqueue(1)
    line.fail("w.one")
    backend.broker.bury(line.claim("w.two"), ERROR.to_json())
    result.refresh()

    assert result.status == TaskResultStatus.FAILED
    assert (result.attempts, len(result.errors)) == (2, 2)
    assert result.finished_at >= result.last_attempted_at
    with pytest.raises(ValueError, match="Task failed"):
        result.return_value


def test_a_requeued_task_counts_from_zero(backend, line, inspector):
    result = tasks.add.enqueue(1)
    backend.broker.bury(line.claim("w.one"), ERROR.to_json())
    backend.broker.requeue([(result.id, inspector.record(result.id).died_at, 0)])
    result.refresh()

    assert result.status == TaskResultStatus.READY
    assert (result.attempts, result.errors, result.finished_at) == (0, [], None)

    line.fail("w.two")
    result.refresh()
    assert (result.attempts, result.worker_ids, len(result.errors)) == (1, ["w.two"], 1)


def test_a_released_task_has_its_attempt_back(backend, line):
    result = tasks.add.enqueue(1)
    backend.broker.release(line.claim("w.one"))
    result.refresh()

    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.READY, 0, [])


def test_a_cancelled_task_has_failed(backend):
    result = tasks.add.enqueue(1)
    backend.broker.cancel([result.id])
    result.refresh()

    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.FAILED, 0, [])
    assert result.finished_at is not None


def test_attempts_are_right_beyond_what_the_log_keeps(backend, line):
    result = tasks.add.enqueue(1)
    for _ in range(25):
        line.fail("w.one")
    line.claim("w.last")
    result.refresh()

    assert result.attempts == 26
    assert result.worker_ids[-1] == "w.last"


def push(backend, envelope, queue="default"):
    record_id = new_id()
    backend.broker.enqueue([NewRecord(record_id, queue, envelope)])
    return record_id


@pytest.mark.parametrize(
    ("name", "meta", "path"),
    [
        ("tests.app.tasks.gone", {}, "tests.app.tasks.gone"),
        ("no_such.module.task", {}, "no_such.module.task"),
        ("bills.render", {"path": "old.place.render"}, "old.place.render"),
        ("bare", {}, "unknown.bare"),
        ("os.system", {}, "os.system"),
    ],
)
def test_a_task_that_cannot_be_found_is_viewable(backend, name, meta, path):
    record_id = push(backend, Envelope(name, args=[1], kwargs={"a": 2}, meta=meta).to_bytes())
    result = backend.get_result(record_id)

    assert (result.task.module_path, result.task.wire_name) == (path, name)
    assert (result.args, result.kwargs, result.status) == ([1], {"a": 2}, TaskResultStatus.READY)
    assert hash(result.task)
    assert repr(result)
    with pytest.raises(LookupError, match=name):
        result.task(1)
    with pytest.raises(TaskResultMismatch, match=path):
        tasks.add.get_result(record_id)


def test_a_task_whose_queue_left_the_settings_is_viewable(backend):
    result = tasks.add.using(queue_name="old").enqueue(1)
    with override_settings(TASKS={"default": {**task_settings(), "QUEUES": ["default"]}}):
        again = tasks.add.get_result(result.id)

        assert again.task.queue_name == "old"


@pytest.mark.parametrize("envelope", [b"", b"{", b'{"v": 99}', b"\xff\xfe", b"[]", b'{"name": 5}'])
def test_a_record_that_cannot_be_read_is_viewable(backend, envelope):
    result = backend.get_result(push(backend, envelope))

    assert result.task.name == "record"
    assert (result.args, result.kwargs) == ([], {})


def test_of_a_state_that_is_not_known_here_it_is_said(backend, redis_client):
    result = tasks.add.enqueue(1)
    redis_client.hset(backend.broker.keys.run(result.id), "state", "paused")
    for ask in (result.refresh, lambda: backend.get_result(result.id)):
        with pytest.raises(UnreadableRecord, match="'paused', which isn't known here"):
            ask()


def test_arguments_of_another_client_are_not_checked_again(backend):
    deep = json.loads("[" * 400 + "]" * 400)
    record_id = push(backend, Envelope("tests.app.tasks.add", args=deep).to_bytes())

    assert backend.get_result(record_id).args == deep


def test_the_result_of_a_lease(backend, line):
    enqueued = tasks.add.using(idempotency_key="k").enqueue(1, b=2)
    line.fail("w.one")
    result = results.from_lease(line.claim("w.two"), tasks.add, alias="default", child="w.two")

    assert result.task == tasks.add.using(idempotency_key="k")
    assert (result.id, result.args, result.kwargs) == (enqueued.id, [1], {"b": 2})
    assert (result.status, result.attempts, result.worker_ids) == (TaskResultStatus.RUNNING, 2, ["", "w.two"])
    assert result.enqueued_at == enqueued.enqueued_at
    assert result.started_at == result.last_attempted_at
    assert result.finished_at is None


def test_a_lease_after_as_many_attempts_as_nobody_made_is_run_all_the_same(backend, line):
    enqueued = tasks.add.enqueue(1)
    backend.broker.client.hset(backend.broker.keys.run(enqueued.id), "attempts", "9" * 9)
    result = results.from_lease(line.claim("w.one"), tasks.add, alias="default", child="w.one")

    assert (len(result.worker_ids), result.worker_ids[-1]) == (MOST_NAMELESS + 1, "w.one")


def test_the_result_of_a_lease_that_nobody_knows(backend, line):
    push(backend, Envelope("gone.task").to_bytes())
    result = results.from_lease(line.claim("w.one"), None, alias="default", child="w.one")

    assert result.task.module_path == "gone.task"


def test_a_running_result_ends(backend, line):
    tasks.add.enqueue(1)
    lease = line.claim("w.one")
    good = results.from_lease(lease, tasks.add, alias="default", child="w.one")
    bad = results.from_lease(lease, tasks.add, alias="default", child="w.one")
    results.succeed(good, {"x": 1})
    results.fail(bad, ERROR)

    assert (good.return_value, good.is_finished, good.finished_at is None) == ({"x": 1}, True, False)
    assert (bad.status, bad.errors[0].exception_class) == (TaskResultStatus.FAILED, ValueError)
    assert good.errors == []
