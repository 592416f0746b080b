"""Declaring tasks: the decorator, using(), plain calls, and what makes a task a good value."""

from __future__ import annotations

import asyncio
import copy
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from asgiref.sync import async_to_sync
from django.template import Context, Engine, Template
from django.test import override_settings

from django_taskq import BackgroundContext, BackgroundTask, background, registry
from django_taskq.broker.retry import RetryPolicy
from django_taskq.compat import InvalidTask, Task, TaskContext, task, task_backends
from django_taskq.task import as_background
from tests.app import tasks

IMMEDIATE = f"{Task.__module__.partition('.base')[0]}.backends.immediate.ImmediateBackend"
DUMMY = f"{Task.__module__.partition('.base')[0]}.backends.dummy.DummyBackend"


def body(*args, **kwargs):
    return args, kwargs


def with_context(context, *args, **kwargs):
    return context, args, kwargs


def test_the_bare_decorator_leaves_all_to_the_backend():
    made = background(body)

    assert isinstance(made, BackgroundTask)
    assert made.name == "body"
    assert made.wire_name == made.module_path == f"{__name__}.body"
    assert (made.priority, made.queue_name, made.backend, made.run_after) == (0, "default", "default", None)
    assert (made.max_attempts, made.backoff, made.timeout, made.result_ttl, made.on_commit) == (None,) * 5
    assert (made.retry_on, made.bury_on) == ((BaseException,), ())


def test_the_decorator_takes_all_documented_arguments():
    made = background(
        queue_name="mail", priority=10, backend="default", max_attempts=5, backoff=2, timeout=30, name="declared",
        retry_on=(OSError,), bury_on=[KeyError, ValueError], on_commit="other", result_ttl=3600, takes_context=True,
    )(with_context)  # fmt: skip

    assert (made.queue_name, made.priority, made.backend, made.takes_context) == ("mail", 10, "default", True)
    assert (made.max_attempts, made.timeout, made.result_ttl, made.on_commit) == (5, 30, 3600, "other")
    assert made.backoff == RetryPolicy(base=2, factor=1, cap=2, jitter="none")
    assert (made.retry_on, made.bury_on) == ((OSError,), (KeyError, ValueError))
    assert (made.wire_name, made.name) == ("declared", "with_context")


@pytest.mark.parametrize(
    ("option", "near"),
    [("max_attempt", "max_attempts"), ("queue", "queue_name"), ("backof", "backoff"), ("xyz", None)],
)
def test_an_unknown_argument_is_refused_with_the_near_one(option, near):
    with pytest.raises(TypeError, match=f"no argument '{option}'") as caught:
        background(**{option: 1})

    assert near is None or f"Did you mean {near!r}?" in str(caught.value)


@pytest.mark.parametrize("option", ["outbox", "atomic"])
@pytest.mark.parametrize("value", ["", 1, 0, ["default"], "a\nb"])
def test_an_outbox_is_in_a_database_or_not_at_all(option, value):
    with pytest.raises(InvalidTask, match=f"{option} must be True, False or the alias of a database"):
        background(**{option: value})(body)


@pytest.mark.parametrize("option", ["outbox", "atomic"])
def test_an_outbox_task_waits_for_the_commit(option):
    with pytest.raises(InvalidTask, match="on_commit can't be False"):
        background(**{option: True}, on_commit=False)(body)
    with pytest.raises(InvalidTask, match="on_commit can't be False"):
        replace(tasks.add, **{option: "other"}).using(on_commit=False)
    assert replace(tasks.at_once, **{option: False}).on_commit is False


@pytest.mark.parametrize("atomic", [True, "other"])
def test_an_atomic_task_cannot_do_without_its_row(atomic):
    with pytest.raises(InvalidTask, match=r"body: an atomic task has an outbox.*leave outbox=False out"):
        background(atomic=atomic, outbox=False)(body)


def test_an_atomic_task_is_a_function():
    with pytest.raises(InvalidTask, match="a coroutine can't be in a transaction"):
        replace(tasks.fetch, atomic=True)
    assert replace(tasks.fetch, outbox=True).outbox is True


@pytest.mark.parametrize(("path", "status"), [(IMMEDIATE, "SUCCESSFUL"), (DUMMY, "READY")])
@pytest.mark.parametrize("option", ["outbox", "atomic"])
def test_other_backends_take_an_outbox_for_nothing_special(path, status, option):
    with override_settings(TASKS={"default": {"BACKEND": path}}):
        assert replace(tasks.add, **{option: "other"}).enqueue(1).status == status


@pytest.mark.parametrize("option", ["run_after", "idempotency_key"])
def test_what_belongs_to_one_enqueue_is_no_declaration(option):
    with pytest.raises(TypeError, match=rf"task\.using\({option}=\.\.\.\)"):
        background(**{option: None})


BAD_POLICIES = [
    {"max_attempts": 0}, {"max_attempts": True}, {"max_attempts": 2.5}, {"timeout": 0}, {"timeout": -1},
    {"result_ttl": -1}, {"backoff": -1}, {"backoff": {"bas": 1}}, {"backoff": "5"}, {"retry_on": (5,)},
    {"retry_on": "OSError"}, {"bury_on": (int,)},
    {"retry_on": None}, {"bury_on": None}, {"on_commit": ""}, {"on_commit": 1}, {"name": ""}, {"name": 5},
    {"name": "a\nb"}, {"name": "x" * 256}, {"priority": 101}, {"priority": 0.5},
    {"queue_name": ""}, {"queue_name": "a:b"},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_POLICIES, ids=str)
def test_a_bad_declaration_is_refused_at_once(options):
    with pytest.raises(InvalidTask):
        background(**options)(body)


def test_c59_zeros_of_a_declaration_keep_their_meaning():
    made = background(result_ttl=0, backoff=0, retry_on=(), on_commit=False)(body)

    assert made.result_ttl == 0
    assert made.backoff.delay_ms(3, 1.0) == 0
    assert made.retry_on == ()
    assert made.on_commit is False


def test_one_exception_class_may_stand_alone():
    assert background(retry_on=OSError)(body).retry_on == (OSError,)


def test_a_function_inside_another_is_no_task():
    with pytest.raises(InvalidTask, match="module level"):
        background(lambda: None)


def test_a_task_is_a_hashable_value():
    first = background(backoff={"base": 1}, retry_on=[OSError])(body)
    second = background(backoff=RetryPolicy(base=1), retry_on=(OSError,))(body)

    assert first == second
    assert hash(first) == hash(second)
    assert len({first, first.using(priority=1)}) == 2


def test_using_makes_a_copy_and_leaves_the_rest():
    later = datetime(2030, 1, 1, tzinfo=UTC)
    copied = tasks.send.using(run_after=later, priority=50, queue_name="q", idempotency_key="k", on_commit=False)

    assert (copied.run_after, copied.priority, copied.queue_name) == (later, 50, "q")
    assert (copied.idempotency_key, copied.on_commit) == ("k", False)
    assert (copied.max_attempts, copied.wire_name, copied.timeout) == (5, "send_welcome", 0.3)
    assert (tasks.send.run_after, tasks.send.idempotency_key) == (None, None)
    assert copied.using() == copied


def test_a_moment_and_a_delay_replace_each_other():
    later = datetime(2030, 1, 1, tzinfo=UTC)
    delayed = tasks.add.using(run_after=later).using(run_after=timedelta(hours=1))

    assert (delayed.run_after, delayed.run_after_delay) == (None, timedelta(hours=1))
    assert (delayed.using(run_after=later).run_after, delayed.using(run_after=later).run_after_delay) == (later, None)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", 5])
def test_a_bad_idempotency_key_is_refused(key):
    with pytest.raises(InvalidTask, match="idempotency key"):
        tasks.add.using(idempotency_key=key)


def test_using_takes_nothing_of_the_declaration():
    with pytest.raises(TypeError):
        tasks.add.using(max_attempts=3)


def test_a_plain_call_is_a_plain_call():
    assert tasks.add(1, b=2) == 3
    assert asyncio.run(tasks.fetch(1, a=2)) == ((1,), {"a": 2})


NAMES = [
    "self",
    "task",
    "queue",
    "using",
    "args",
    "kwargs",
    "func",
    "backend",
    "function",
    "delay",
    "fence",
    "awaitable",
]


def test_c50_no_argument_name_is_taken():
    kwargs = {name: name for name in NAMES}

    assert tasks.anything(**kwargs) == ((), kwargs)
    assert tasks.anything.call(**kwargs) == ((), kwargs)
    assert async_to_sync(partial(tasks.anything.acall, **kwargs))() == ((), kwargs)


def test_c50_no_argument_name_of_a_coroutine_function_is_taken():
    kwargs = {name: name for name in NAMES}

    assert tasks.fetch.call(**kwargs) == ((), kwargs)

    async def run():
        return await tasks.fetch.acall(**kwargs), await tasks.fetch(**kwargs)

    assert async_to_sync(run)() == (((), kwargs), ((), kwargs))


def test_a_template_that_names_a_task_does_not_run_it():
    ran = []
    made = copy.copy(background(body))
    object.__setattr__(made, "func", lambda: ran.append(1))

    template = Template("{{ task.priority }} {{ task }}", engine=Engine())

    assert template.render(Context({"task": made})).startswith("0 ")
    assert ran == []


@pytest.mark.parametrize("name", ["add", "send", "look", "fetch", "stock"])
def test_tasks_can_be_pickled_and_copied(name):
    made = getattr(tasks, name)
    if isinstance(made, BackgroundTask):
        made = made.using(run_after=timedelta(seconds=3), idempotency_key="k")
        assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert copy.copy(made) == made


def test_a_task_that_is_gone_cannot_be_unpickled():
    stored = pickle.dumps(tasks.add)

    for gone in (b"tests.app.tasks.adx", b"tests.app.tasks.sys"):
        with pytest.raises(ValueError, match="to point to a Task instance"):
            pickle.loads(stored.replace(b"tests.app.tasks.add", gone))


@pytest.mark.parametrize("backend", [IMMEDIATE, DUMMY])
@pytest.mark.parametrize("given", [{}, {"idempotency_key": "k"}, {"priority": 3}, {"on_commit": True}])
def test_a_task_works_with_the_backends_of_django(backend, given):
    with override_settings(TASKS={"default": {"BACKEND": backend, "QUEUES": []}}):
        made = background(max_attempts=2, backoff={"base": 3}, timeout=5)(body).using(**given)
        result = made.enqueue(1, self=2)
        many = made.enqueue_many([((1,), {}), ((), {"a": 2})])

        assert (result.args, result.kwargs) == ([1], {"self": 2})
        assert [(each.args, each.kwargs) for each in many] == [([1], {}), ([], {"a": 2})]
        if backend == IMMEDIATE:
            assert result.return_value == [[1], {"self": 2}]


def test_a_delay_under_the_immediate_backend_is_refused_as_a_moment_is():
    with override_settings(TASKS={"default": {"BACKEND": IMMEDIATE}}):
        made = background(body)
        with pytest.raises(InvalidTask, match="does not support run_after"):
            made.using(run_after=timedelta(seconds=1))


def test_a_delay_under_the_dummy_backend_is_kept():
    with override_settings(TASKS={"default": {"BACKEND": DUMMY}}):
        result = background(body).using(run_after=timedelta(seconds=1)).enqueue()
    assert result.task.run_after_delay == timedelta(seconds=1)


def test_the_context_of_another_backend_becomes_ours():
    with override_settings(TASKS={"default": {"BACKEND": DUMMY, "QUEUES": []}}):
        result = tasks.look.using(idempotency_key="k").enqueue()
        context, _, _ = result.task.call(TaskContext(task_result=result))

    assert isinstance(context, BackgroundContext)
    assert context.task_result is result
    assert context.attempt == 0
    assert context.idempotency_key == "k"
    assert (context.lease_lost, context.cancel_requested) == (False, False)


def test_our_own_context_is_passed_on_as_it_is():
    context = BackgroundContext(task_result=None, fencing_token=7)

    assert tasks.look.call(context)[0] is context


def test_the_stock_decorator_makes_our_tasks_on_our_backend():
    assert isinstance(tasks.stock, BackgroundTask)
    assert tasks.stock.on_commit is False
    assert isinstance(task(max_attempts=5)(body), BackgroundTask) if _passes_options() else True


def _passes_options():
    import django

    return django.VERSION[:2] != (6, 0)


def test_a_stock_task_gets_the_default_policy():
    with override_settings(TASKS={"default": {"BACKEND": DUMMY, "QUEUES": []}}):
        stock = task(priority=7)(body)
    made = as_background(stock)

    assert not isinstance(stock, BackgroundTask)
    assert (made.func, made.priority, made.wire_name) == (body, 7, stock.module_path)
    assert (made.max_attempts, made.on_commit, made.retry_on) == (None, False, (BaseException,))


def test_a_declared_task_is_registered_under_its_name():
    assert registry.find("send_welcome") is tasks.send
    assert task_backends["default"].task_class is BackgroundTask
