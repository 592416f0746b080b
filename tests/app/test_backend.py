"""Enqueuing and reading back through RedisBackend, on a real server."""

from __future__ import annotations

import asyncio
import pickle
import threading
from datetime import UTC, datetime

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django.utils import timezone

from django_taskq import background, registry
from django_taskq.backend import RedisBackend
from django_taskq.broker.enqueueing import PAGE_RECORDS
from django_taskq.broker.records import Claim, State
from django_taskq.broker.retry import RetryPolicy
from django_taskq.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    signals,
    task,
    task_backends,
)
from tests.app import tasks
from tests.app.test_task import DUMMY, NAMES


def claim(broker, count=1, queue="default", nonce=1):
    return broker.claim(Claim("w.child0001", nonce, count, 30_000, (queue,))).leases


def test_a_task_is_stored_with_its_policy(backend, inspector):
    result = tasks.send.enqueue(7)
    record = inspector.record(result.id)

    assert record.state is State.WAITING
    assert (record.head.queue, record.head.priority) == ("mail", 10)
    assert (record.envelope.name, record.envelope.meta) == ("send_welcome", {"path": "tests.app.tasks.send"})
    assert (record.envelope.args, record.envelope.kwargs) == ([7], {})
    assert (record.envelope.max_attempts, record.envelope.timeout_ms, record.envelope.result_ttl_ms) == (5, 300, 0)
    assert record.envelope.backoff == RetryPolicy(base=2, factor=1, cap=2, jitter="none")


def test_what_a_task_leaves_open_is_the_backends(with_options, redis_server):
    backend = with_options(max_attempts=7, timeout=0.3, result_ttl=0.1, backoff={"base": 9})
    envelope = claim(backend.broker)[0].envelope if tasks.add.enqueue(1) else None

    assert (envelope.max_attempts, envelope.timeout_ms, envelope.result_ttl_ms) == (7, 300, 100)
    assert envelope.backoff == RetryPolicy(base=9)
    assert envelope.meta == {}


def test_what_a_task_says_goes_before_the_backend(with_options, inspector):
    with_options(max_attempts=7, timeout=60, result_ttl=30, backoff={"base": 9})
    envelope = inspector.record(tasks.send.enqueue(1).id).envelope

    assert (envelope.max_attempts, envelope.timeout_ms, envelope.result_ttl_ms, envelope.backoff.base) == (5, 300, 0, 2)


def test_a_result_is_ready_at_once(backend):
    before = timezone.now()
    result = tasks.add.enqueue(1, b=(2, 3))

    assert (result.args, result.kwargs, result.task, result.backend) == ([1], {"b": [2, 3]}, tasks.add, "default")
    assert result.status == TaskResultStatus.READY
    assert abs(result.enqueued_at - before).total_seconds() < 5
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert not result.is_finished
    assert len(result.id) == 26


@pytest.mark.parametrize("made", [tasks.add, tasks.send, tasks.stock, tasks.fetch], ids=lambda made: made.name)
def test_get_result_gives_what_enqueue_gave(backend, made):
    result = made.enqueue(1)

    assert backend.get_result(result.id) == result
    assert made.get_result(result.id) == result
    assert asyncio.run(made.aget_result(result.id)) == result


def test_options_of_one_enqueue_are_read_back(backend):
    moment = datetime(2031, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
    given = tasks.add.using(priority=-5, queue_name="other", run_after=moment, idempotency_key="a key")

    assert backend.get_result(given.enqueue(1).id).task == given


@pytest.mark.parametrize("missing", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "a:b", "{x}", "x" * 300, "\ud800", 5, None])
def test_a_result_that_is_not_there(backend, missing, monkeypatch):
    monkeypatch.setattr(registry, "_declared", {})  # where other tests have tasks with rows
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(missing)


def test_a_result_of_another_task_is_a_mismatch(backend):
    result = tasks.add.enqueue(1)

    with pytest.raises(TaskResultMismatch):
        tasks.send.get_result(result.id)


def test_a_result_can_be_pickled(backend):
    result = tasks.send.enqueue(1)

    assert pickle.loads(pickle.dumps(result)) == result


def test_a_stock_task_that_is_routed_here_is_stored(backend, inspector):
    with override_settings(TASKS={"default": {"BACKEND": DUMMY}, "ours": task_settings()}):
        stock = task(tasks.not_a_task)
        result = stock.using(backend="ours").enqueue(1, b=2)
        assert task_backends["ours"].get_result(result.id).args == [1]
    envelope = inspector.record(result.id).envelope

    assert (envelope.name, envelope.max_attempts) == ("tests.app.tasks.not_a_task", 3)


def task_settings():
    from tests.settings import TASKS

    return TASKS["default"]


def test_c50_no_argument_name_is_taken(backend):
    kwargs = {name: name for name in NAMES}

    for made in (tasks.anything, tasks.stock, tasks.fetch):
        assert made.enqueue(**kwargs).kwargs == kwargs
        assert asyncio.run(aenqueue(made, kwargs)).kwargs == kwargs
        assert made.enqueue_many([((), kwargs)])[0].kwargs == kwargs


async def aenqueue(made, kwargs):
    return await made.aenqueue(**kwargs)


def test_c50_the_context_is_no_argument(backend):
    with pytest.raises(TypeError, match="'context'"):
        tasks.look.enqueue(context=1)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", b"raw", {1}, {1: 2}, object()])
def test_c46_nothing_is_stored_when_an_argument_is_refused(redis_client, backend, value):
    for attempt in (
        lambda: tasks.add.enqueue(1, b=[value]),
        lambda: tasks.add.enqueue_many([((1,), {}), ((1,), {"b": [value]})]),
        lambda: asyncio.run(tasks.add.aenqueue(1, b=[value])),
    ):
        with pytest.raises((TypeError, ValueError), match=r": add: (calls\[1\] )?kwargs\['b'\]\[0\] "):
            attempt()

    assert redis_client.keys() == []


@pytest.mark.parametrize("size", [1_000, 900_000])
def test_c55_arguments_under_the_limit_come_back(backend, size):
    assert backend.get_result(tasks.add.enqueue("x" * size).id).args == ["x" * size]


@pytest.mark.parametrize("text", ["x" * 1_000_000, "x" * 64_000_000, "ü" * 500_000])
def test_c55_arguments_over_the_limit_are_refused_with_both_sizes(redis_client, backend, text):
    with pytest.raises(ValueError, match=r"take \d+ bytes.* max_payload_bytes is 1000000"):
        tasks.add.enqueue(text)

    assert redis_client.keys() == []


def test_c55_the_limit_is_an_option(with_options):
    with_options(max_payload_bytes=200)

    tasks.add.enqueue("x" * 100)
    with pytest.raises(ValueError, match="max_payload_bytes is 200"):
        tasks.add.enqueue("x" * 200)


def test_many_tasks_are_stored_in_their_order(backend):
    results = tasks.add.enqueue_many([((number,), {}) for number in range(2 * PAGE_RECORDS + 1)])

    assert [result.args for result in results] == [[number] for number in range(2 * PAGE_RECORDS + 1)]
    assert all(result.enqueued_at for result in results)
    assert [lease.id for lease in claim(backend.broker, 3)] == [result.id for result in results[:3]]


def test_an_empty_bulk_is_nothing(backend, redis_client):
    assert tasks.add.enqueue_many([]) == []
    assert tasks.add.enqueue_many(call for call in ()) == []
    assert redis_client.keys() == []


def test_the_signal_is_sent_once_the_task_is_stored(backend, sent):
    result = tasks.add.enqueue(1)
    many = tasks.add.enqueue_many([((2,), {}), ((3,), {})])

    assert [(sender, received.id) for sender, received, _ in sent] == [
        (RedisBackend, each.id) for each in (result, *many)
    ]
    assert all(enqueued_at is not None for _, _, enqueued_at in sent)


def test_a_receiver_that_fails_changes_nothing(backend, sent, caplog):
    def fail(**kwargs):
        raise RuntimeError("a receiver's own")

    signals.task_enqueued.connect(fail)
    try:
        result = tasks.add.enqueue(1)
    finally:
        signals.task_enqueued.disconnect(fail)

    assert backend.get_result(result.id) == result
    assert "a receiver's own" in caplog.text


def test_enqueue_validates_again(backend):
    made = background(first)
    entry = {**task_settings(), "QUEUES": ["mail"]}

    with override_settings(TASKS={"default": entry}):
        for attempt in (made.enqueue, lambda: asyncio.run(made.aenqueue()), lambda: made.enqueue_many([((), {})])):
            with pytest.raises(InvalidTask, match="Queue 'default' is not valid"):
                attempt()


def first(): ...


@pytest.mark.parametrize("queue", ["", "a}b", "a:leased", "*", "x" * 300, "line\nbreak"])
def test_c54_a_queue_name_that_collides_with_keys_is_refused(backend, redis_client, queue):
    with pytest.raises(InvalidTask):
        tasks.add.using(queue_name=queue).enqueue(1)

    assert redis_client.keys() == []


@pytest.mark.parametrize("queue", ["dlq", "dead", "späti", "a b", "x" * 100])
def test_c54_other_queue_names_stay_inside_the_prefix(backend, redis_client, queue):
    tasks.add.using(queue_name=queue).enqueue(1)

    assert [lease.queue for lease in claim(backend.broker, queue=queue)] == [queue]
    assert all(key.startswith(b"{taskq}:") for key in redis_client.scan_iter())


def test_declaring_connects_to_nothing():
    entry = {"BACKEND": "django_taskq.backend.RedisBackend", "OPTIONS": {"url": "redis://nowhere.invalid:1/0"}}

    with override_settings(TASKS={"default": entry}):
        assert background(first).using(priority=3, run_after=datetime(2030, 1, 1, tzinfo=UTC)).priority == 3


def test_wrong_options_spare_the_declaration_and_not_the_use():
    with override_settings(TASKS={"default": {"BACKEND": "django_taskq.backend.RedisBackend", "OPTIONS": {"ulr": 1}}}):
        made = background(first)
        with pytest.raises(ImproperlyConfigured, match="Did you mean 'url'"):
            made.enqueue()


def test_threads_share_one_broker(backend):
    seen = []

    def look():
        seen.append((task_backends["default"], task_backends["default"].broker))

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    assert seen[0][0] is not seen[1][0]
    assert seen[0][1] is seen[1][1] is backend.broker


def test_changed_settings_make_another_broker(backend, with_options):
    broker = backend.broker

    assert with_options(namespace="elsewhere").broker is not broker
    assert task_backends["default"].broker.keys.namespace == "elsewhere"


@pytest.mark.parametrize("calls", [[(1, {})], [("ab", {})], [({"pk": 1}, {})], [((1,), "pk")], [(1,)], [1, 2]])
def test_calls_of_the_wrong_shape_are_refused_by_their_number(backend, calls):
    with pytest.raises(TypeError, match=r"calls\[0\]"):
        tasks.add.enqueue_many(calls)


def test_a_queue_that_is_not_in_the_settings_is_named_with_those_that_are():
    with pytest.raises(InvalidTask, match=r"QUEUES of TASKS\['default'\] has: mail, reports"):
        RedisBackend("default", {"QUEUES": ["reports", "mail"], "OPTIONS": {}}).validate_task(tasks.add)
