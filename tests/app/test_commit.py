"""Enqueuing waits for the commit of the right databases, and dies with the rollback, on every path."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError, atomic
from django.test import TestCase

from django_taskq import background
from django_taskq.compat import TaskResultDoesNotExist, TaskResultStatus, task_backends
from tests.app import tasks
from tests.app.test_backend import claim

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@contextmanager
def rolled_back(alias="default"):
    """Open a block that ends with a rollback."""
    with suppress(InterruptedError), atomic(alias):
        yield
        raise InterruptedError


def enqueue(made):
    return made.enqueue(1)


def aenqueue(made):
    return async_to_sync(made.aenqueue)(1)


def enqueue_many(made):
    return made.enqueue_many([((1,), {}), ((2,), {})])[1]


def enqueue_deferred(made):
    return made.using(run_after=timedelta(hours=1)).enqueue(1)


def enqueue_with_key(made):
    return made.using(idempotency_key=f"{made.priority} {made.on_commit}").enqueue(1)


PATHS = [enqueue, aenqueue, enqueue_many, enqueue_deferred, enqueue_with_key]
every_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)


def stored(result):
    """Tell whether the record is in Redis."""
    try:
        task_backends["default"].get_result(result.id)
    except TaskResultDoesNotExist:
        return False
    return True


@every_path
def test_a_task_is_stored_when_the_block_has_committed(backend, sent, path):
    with atomic():
        result = path(tasks.add)

        assert not stored(result)
        assert (result.status, result.enqueued_at) == (TaskResultStatus.READY, None)
        assert sent == []

    assert stored(result)
    assert result.enqueued_at is not None
    assert sent[-1][1] is result


@every_path
def test_a_task_dies_with_the_rollback(backend, redis_client, path):
    with rolled_back():
        path(tasks.add)

    assert redis_client.keys() == []


@every_path
def test_a_task_dies_with_the_rollback_of_the_block_that_enqueued_it(backend, sent, path):
    with atomic():
        kept = path(tasks.add.using(priority=1))
        with rolled_back():
            dropped = path(tasks.add.using(priority=2))

    assert stored(kept)
    assert not stored(dropped)


@every_path
def test_outside_a_transaction_no_connection_is_opened(backend, path):
    outcome = []

    def run():
        outcome.append(path(tasks.add))
        outcome.append([connection.connection for connection in connections.all(initialized_only=True)])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert stored(outcome[0])
    assert outcome[1] == [None] * len(outcome[1])


@every_path
def test_on_commit_false_waits_for_nothing(backend, path):
    with rolled_back():
        assert stored(path(tasks.add.using(on_commit=False)))


def test_a_declaration_may_wait_for_nothing(backend):
    with atomic():
        assert stored(tasks.at_once.enqueue())
        assert not stored(tasks.at_once.using(on_commit=True).enqueue())


def test_a_stock_task_waits_for_nothing(backend):
    with atomic():
        assert stored(tasks.stock.enqueue())


@pytest.mark.parametrize("chosen", [False, "other"])
def test_the_backend_may_choose_for_all_background_tasks(with_options, chosen):
    with_options(on_commit=chosen)
    with atomic():
        assert stored(tasks.add.enqueue(1))
        assert not stored(tasks.add.using(on_commit=True).enqueue(1))


@every_path
@pytest.mark.parametrize("blocks", [("default", "other"), ("other", "default"), ("other",), ("default",)], ids=str)
def test_c73_a_task_waits_for_every_database_with_an_open_block(backend, path, blocks):
    with ExitStack() as stack:
        for alias in blocks:
            stack.enter_context(atomic(alias))
        result = path(tasks.add)
        assert not stored(result)

    assert stored(result)


@pytest.mark.parametrize("blocks", [("default", "other"), ("other", "default")], ids=str)
def test_c73_a_task_waits_for_the_last_of_several_commits(backend, blocks):
    with atomic(blocks[0]):
        with atomic(blocks[1]):
            result = tasks.add.enqueue(1)
        assert not stored(result)

    assert stored(result)


@pytest.mark.parametrize("which", ["outer", "inner"])
@pytest.mark.parametrize("blocks", [("default", "other"), ("other", "default")], ids=str)
def test_c73_one_rollback_of_several_drops_a_task(backend, redis_client, blocks, which):
    kinds = (rolled_back, atomic) if which == "outer" else (atomic, rolled_back)
    with kinds[0](blocks[0]), kinds[1](blocks[1]):
        tasks.add.enqueue(1)

    assert redis_client.keys() == []


@every_path
def test_c73_an_alias_waits_for_that_database_alone(backend, path):
    with atomic("default"):
        assert stored(path(tasks.add.using(on_commit="other", priority=1)))
        with atomic("other"):
            waits = path(tasks.add.using(on_commit="other", priority=2))
            assert not stored(waits)
        assert stored(waits)


def test_c73_a_block_that_opens_later_is_not_waited_for(backend):
    with atomic("default"):
        result = tasks.add.enqueue(1)
        inner = atomic("other")
        inner.__enter__()
    assert stored(result)
    inner.__exit__(None, None, None)


def test_an_alias_that_does_not_exist_is_refused(backend, redis_client):
    with pytest.raises(Exception, match="nowhere"):
        tasks.add.using(on_commit="nowhere").enqueue(1)

    assert redis_client.keys() == []


@every_path
@pytest.mark.parametrize("on_commit", [True, "default"])
def test_manual_transaction_management_is_refused(backend, redis_client, path, on_commit):
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError, match="manual transaction management"):
            path(tasks.add.using(on_commit=on_commit))
        assert redis_client.keys() == []

        assert stored(path(tasks.add.using(on_commit=False)))
        assert stored(path(tasks.add.using(on_commit="other")))
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_a_refused_argument_is_raised_inside_the_block(backend, redis_client):
    with atomic(), pytest.raises(TypeError, match=r"args\[0\]"):
        tasks.add.enqueue(object())

    assert redis_client.keys() == []


def test_a_task_that_a_hook_enqueues_is_stored(backend):
    results = []
    with atomic():
        transaction.on_commit(lambda: results.append(tasks.add.enqueue(1)))

    assert stored(results[0])


def test_aenqueue_off_commit_does_not_ask_the_thread_sensitive_thread(backend):
    held, release = threading.Event(), threading.Event()

    def hold():
        held.set()
        release.wait(10)

    async def enqueue_while_it_is_held():
        holding = asyncio.ensure_future(sync_to_async(hold)())
        await asyncio.to_thread(held.wait, 10)
        try:
            return await asyncio.wait_for(tasks.at_once.aenqueue(), timeout=5)
        finally:
            release.set()
            await holding

    assert stored(async_to_sync(enqueue_while_it_is_held)())


def test_the_thread_of_an_event_loop_sees_no_block_of_another(backend):
    async def direct():
        return tasks.add.enqueue(1)

    with rolled_back():
        assert stored(async_to_sync(direct)())


def test_a_savepoint_handled_by_hand_drops_no_task(backend):
    with atomic():
        savepoint = connections["default"].savepoint()
        result = tasks.add.enqueue(1)
        connections["default"].savepoint_rollback(savepoint)

    assert stored(result)


def test_a_result_is_refreshed_after_the_commit(backend):
    with atomic():
        result = tasks.add.enqueue(1)
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
    result.refresh()

    assert result == backend.get_result(result.id)


def test_tasks_of_one_block_keep_their_order(backend):
    with atomic():
        ids = [tasks.add.enqueue(number).id for number in range(3)]

    assert ids == sorted(ids)
    assert [lease.id for lease in claim(backend.broker, 3)] == ids


@pytest.mark.usefixtures("backend")
class CapturedCallbacks(TestCase):
    """As in a user's own tests: a TestCase never commits, and runs the hooks when it is asked to."""

    databases = {"default"}

    def test_a_task_is_stored_when_the_callbacks_are_run(self):
        with self.captureOnCommitCallbacks(execute=True):
            result = tasks.add.enqueue(1)
            assert not stored(result)

        assert stored(result)

    async def test_aenqueue_waits_in_an_async_test_too(self):
        assert not await asyncio.to_thread(stored, await tasks.add.aenqueue(1))
        assert await asyncio.to_thread(stored, await tasks.at_once.aenqueue())


@pytest.mark.usefixtures("backend")
class CapturedCallbacksOfTwo(TestCase):
    databases = {"default", "other"}

    def test_both_must_be_captured(self):
        for first, then in (("default", "other"), ("other", "default")):
            with self.captureOnCommitCallbacks(using=first, execute=True):
                result = tasks.add.enqueue(1)
            assert not stored(result)
            with (
                self.captureOnCommitCallbacks(using=first, execute=True),
                self.captureOnCommitCallbacks(using=then, execute=True),
            ):
                result = tasks.add.enqueue(1)
            assert stored(result)


def body(): ...


def test_the_declared_alias_counts(backend):
    made = background(on_commit="other")(body)
    with atomic("default"):
        assert stored(made.enqueue())
