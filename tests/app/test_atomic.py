"""A task whose effects and end are one transaction, as its author and its caller see it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from django_taskq import background
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.records import Claim
from django_taskq.compat import InvalidTask, TaskResultStatus, signals
from django_taskq.effects import NotOurs
from django_taskq.execution import Application
from django_taskq.models import TaskRecord
from django_taskq.worker.outcomes import settle
from tests.app import tasks
from tests.broker.helpers import record
from tests.databases.atomic import Control

pytestmark = pytest.mark.django_db(transaction=True)
nonces = iter(range(1, 10**6))


@background(atomic=True)
def make_group(name):
    Group.objects.create(name=name)
    return name


@background(atomic=True, backoff=0)
def make_group_and_fail(name):
    Group.objects.create(name=name)
    raise ValueError(name)


@pytest.fixture
def work(backend):
    """Give a function that runs what is ready, and returns the outcome and Redis's word."""

    def work():
        claim = Claim("worker.abcdefgh", next(nonces), 1, 30_000, ("default",))
        (lease,) = backend.broker.claim(claim).leases
        outcome = Application.connect("default").perform(lease, Control())
        return outcome, settle(backend.broker, lease, outcome)

    return work


def test_effects_result_and_row_are_there_together(work):
    result = make_group.enqueue("bakers")
    assert work()[1] == "DONE"
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "bakers")
    assert Group.objects.count() == 1
    assert TaskRecord.objects.get(pk=result.id).status == "succeeded"


def test_what_a_failed_attempt_did_is_undone(work):
    result = make_group_and_fail.enqueue("bakers")
    assert work()[1] == "DONE"
    result.refresh()
    assert result.status == TaskResultStatus.READY
    assert [error.exception_class for error in result.errors] == [ValueError]
    assert not Group.objects.exists()
    assert TaskRecord.objects.get(pk=result.id).status == "running"


@pytest.mark.parametrize(("task", "groups"), [(make_group, 1), (make_group_and_fail, 0)])
def test_its_effects_are_there_together_also_where_another_program_enqueued_it_without_a_row(
    backend, work, task, groups
):
    backend.broker.enqueue([record("default", envelope=Envelope(task.wire_name, ["bakers"]).to_bytes())])

    assert work()[1] == "DONE"

    assert Group.objects.count() == groups
    assert not TaskRecord.objects.exists()


def test_its_end_is_announced_after_the_commit(work):
    heard = []

    def hear(sender, task_result, **kwargs):
        heard.append((task_result.status, connection.in_atomic_block, Group.objects.count()))

    signals.task_finished.connect(hear)
    try:
        make_group.enqueue("bakers")
        work()
    finally:
        signals.task_finished.disconnect(hear)
    assert heard == [(TaskResultStatus.SUCCESSFUL, False, 1)]


@contextmanager
def statements():
    """Give a list that the first words of all statements are added to."""
    words = []

    def note(execute, sql, params, many, context):
        words.append(sql.split()[0])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield words


def test_the_statements_around_its_body_are_few(work):
    make_group.enqueue("bakers")
    with statements() as words:
        work()
    # The start, and the body between a savepoint's ends and the close. A commit is none.
    assert words == ["UPDATE", "BEGIN", "SAVEPOINT", "INSERT", "RELEASE", "UPDATE"]


def test_a_task_without_a_row_costs_no_query(work):
    tasks.add.enqueue(1, 2)
    with statements() as words:
        assert work()[1] == "DONE"
    assert words == []


def test_atomic_is_for_functions_whose_enqueue_waits_for_the_commit():
    with pytest.raises(InvalidTask, match="coroutine"):
        background(atomic=True)(tasks.fetch.func)
    with pytest.raises(InvalidTask, match="on_commit can't be False with an outbox, which atomic tasks have"):
        background(atomic=True, on_commit=False)(make_group.func)
    with pytest.raises(InvalidTask, match="on_commit"):
        make_group.using(on_commit=False)


@pytest.mark.parametrize("name", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_other_backends_take_it_for_a_plain_task(settings, name):
    package = type(signals.task_finished).__module__ and signals.__name__.rpartition(".")[0]
    settings.TASKS = {"default": {"BACKEND": f"{package}.backends.{name}"}}
    result = replace(make_group).enqueue("bakers")
    assert result.status == (TaskResultStatus.SUCCESSFUL if "Immediate" in name else TaskResultStatus.READY)
    assert Group.objects.count() == ("Immediate" in name)


def test_a_close_that_finds_another_run_says_why(work, monkeypatch, caplog):
    monkeypatch.setattr("django_taskq.fence.close", lambda alias, row: False)
    make_group.enqueue("bakers")
    outcome, _ = work()
    assert outcome.error.error.endswith(NotOurs.__qualname__)
    assert "another run has its row" in caplog.text
    assert not Group.objects.exists()
