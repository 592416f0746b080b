"""What running a task means: outcomes, signals, and the thread it leaves behind."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextlib import nullcontext

import pytest
from django.db import connections
from django.db.backends.signals import connection_created
from django.utils import timezone, translation

from django_taskq import Bury, Retry, background, hygiene
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.records import Lease
from django_taskq.compat import TaskResultStatus, signals, task
from django_taskq.execution import Application
from django_taskq.worker.exceptions import UnknownTask
from django_taskq.worker.outcomes import Failed, Released, Succeeded


class Control:
    child = "worker.child"
    lease_lost = False
    cancel_requested = False

    def limit(self):
        return nullcontext()

    alimit = limit


def make_lease(path, *args, attempt=1, releases=0, unknown_ms=None, envelope=None, **fields):
    kwargs = fields.pop("kwargs", {})
    data = envelope or Envelope(path, list(args), kwargs, **fields).to_bytes()
    task = b"1700000000000 0 default\nkey 5 once\n\n" + data
    return Lease("ID1", "default", 77, attempt, releases, unknown_ms, task, 1700000000000, float("inf"))


def lease_of(task, *args, **fields):
    return make_lease(task.wire_name if hasattr(task, "wire_name") else task.module_path, *args, **fields)


@pytest.fixture
def application(settings, monkeypatch):
    # Whatever other tests did in this thread, or in that of coroutines.
    monkeypatch.setattr(hygiene._thread, "is_connected", False)
    hygiene._connected_for_coroutines.clear()
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"unknown_ttl": 100}}}
    return Application.connect("default")


@pytest.fixture
def perform(application):
    """Run a lease to its outcome, on whichever of the two paths it belongs to."""

    def perform(lease, control=None):
        control = control or Control()
        if application.is_coroutine(lease):
            return asyncio.run(application.aperform(lease, control))
        return application.perform(lease, control)

    return perform


@pytest.fixture
def told():
    """Collect what the signals of a running task say."""
    heard = []

    def hear(name):
        def receive(sender, task_result, **kwargs):
            heard.append((name, task_result.status, sender.__name__, threading.current_thread()))

        return receive

    receivers = {signals.task_started: hear("started"), signals.task_finished: hear("finished")}
    for signal, receiver in receivers.items():
        signal.connect(receiver)
    yield heard
    for signal, receiver in receivers.items():
        signal.disconnect(receiver)


@background
def give(value=None):
    return value


@background
async def agive(value=None):
    return value


@task
def stock(value):
    return value


@background
def throw(kind="ValueError"):
    raise {"ValueError": ValueError("x"), "Bury": Bury("why"), "Retry": Retry(), "Retry5": Retry(after=5)}[kind]


@background
async def athrow():
    raise ValueError("x")


@background(bury_on=(KeyError,), retry_on=(LookupError, OSError))
def pick(kind):
    raise {"key": KeyError, "index": IndexError, "value": ValueError}[kind]


@background(backoff=lambda error, result: {"1": 7, "2": None}[str(error)])
def chosen(text):
    raise ValueError(text)


@background(backoff=lambda error, result: 1 / 0)
def wrongly_chosen():
    raise ValueError


@background(backoff=lambda error, result: error.args[0])
def chosen_by_argument(kind, value):
    raise {"error": ValueError, "retry": AgainWithoutInit, "bury": GoneWithoutInit}[kind](float(value))


class AgainWithoutInit(Retry):
    def __init__(self, after):
        self.after = after if after >= 0 else "soon"


class GoneWithoutInit(Bury):
    def __init__(self, number):
        self.number = number


class PlainAgain(Retry):
    def __init__(self):
        pass


@background
def again_without_more():
    raise PlainAgain


@background(takes_context=True)
def tell(context, word):
    return [
        context.attempt, context.fencing_token, context.idempotency_key, context.lease_lost,
        context.task_result.id, context.task_result.worker_ids, word,
    ]  # fmt: skip


@background
def change_thread():
    translation.activate("de")
    timezone.activate("Asia/Kathmandu")
    return translation.get_language()


@background
def query():
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone()[0]


def no_task():
    return None


@pytest.mark.parametrize("declared", [give, agive, stock], ids=["function", "coroutine", "stock"])
def test_what_a_task_returns_is_kept_as_json(declared, perform):
    assert perform(lease_of(declared, {"a": [1]})) == Succeeded(b'{"result":{"a":[1]}}')


def test_a_result_without_a_ttl_is_not_kept(perform):
    assert perform(lease_of(give, 5, result_ttl_ms=0)) == Succeeded(b"{}", 0)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), {1: 2}, {"\ud800": {1}}], ids=ascii)
def test_a_result_that_json_cannot_carry_is_a_failed_attempt(value, application):
    lease = lease_of(give)
    application._find(lease)
    known = application._known["tests.app.test_execution.give", None]
    application._known["tests.app.test_execution.give", None] = type(known)(known.task, lambda: value, False)

    outcome = application.perform(lease, Control())

    assert isinstance(outcome, Failed)
    assert "The result of give" in outcome.error.message


def test_a_result_that_is_too_large_is_a_failed_attempt_that_says_so(perform):
    outcome = perform(lease_of(give, "x" * 1_000_000))

    assert isinstance(outcome, Failed)
    assert "1000013 bytes" in outcome.error.message


@pytest.mark.parametrize("declared", [throw, athrow], ids=["function", "coroutine"])
def test_an_exception_is_a_failed_attempt_with_the_task_s_part_of_the_traceback(declared, perform):
    outcome = perform(lease_of(declared))

    assert isinstance(outcome, Failed)
    assert (outcome.error.error, outcome.error.message) == ("builtins.ValueError", "x")
    assert 500 <= outcome.delay_ms <= 1000
    assert f"in {declared.func.__name__}" in outcome.error.traceback
    assert "django_taskq/" not in outcome.error.traceback


def test_the_last_attempt_is_followed_by_none(perform):
    assert perform(lease_of(throw, attempt=3)).delay_ms is None
    assert perform(lease_of(throw, "Retry5", attempt=3)).delay_ms is None


def test_a_task_says_when_it_wants_to_be_run_again(perform):
    assert perform(lease_of(throw, "Retry5")).delay_ms == 5000
    assert 500 <= perform(lease_of(throw, "Retry")).delay_ms <= 1000


def test_a_task_says_that_it_must_not_be_run_again(perform):
    outcome = perform(lease_of(throw, "Bury"))

    assert (outcome.delay_ms, outcome.error.reason) == (None, "why")


def test_a_declaration_says_which_exceptions_are_worth_another_attempt(perform):
    assert perform(lease_of(pick, "index")).delay_ms is not None
    assert perform(lease_of(pick, "key")).delay_ms is None
    assert perform(lease_of(pick, "value")).delay_ms is None


def test_a_callable_chooses_the_delay_or_the_end(perform):
    assert perform(lease_of(chosen, "1")).delay_ms == 7000
    assert perform(lease_of(chosen, "2")).delay_ms is None
    assert 500 <= perform(lease_of(wrongly_chosen)).delay_ms <= 1000


@pytest.mark.parametrize("kind", ["error", "retry"])
def test_a_chosen_delay_is_a_hundred_years_at_most(kind, perform):
    for far in ("1e14", "1e300", "inf"):
        assert perform(lease_of(chosen_by_argument, kind, far)).delay_ms == 3_155_760_000_000


@pytest.mark.parametrize("kind", ["error", "retry"])
@pytest.mark.parametrize("value", ["nan", "-1"])
def test_a_chosen_delay_that_is_none_leaves_it_to_the_policy(kind, value, perform, caplog):
    assert 500 <= perform(lease_of(chosen_by_argument, kind, value)).delay_ms <= 1000
    assert "can't be used" in caplog.text


def test_a_subclass_that_skips_its_base_s_init_means_the_same(perform):
    outcome = perform(lease_of(chosen_by_argument, "bury", "1"))

    assert (outcome.delay_ms, outcome.error.reason) == (None, "")
    assert 500 <= perform(lease_of(again_without_more)).delay_ms <= 1000


def test_a_context_tells_about_the_lease(perform):
    outcome = perform(lease_of(tell, "w", attempt=2))

    expected = [2, 77, "once", False, "ID1", ["", "worker.child"], "w"]
    assert json.loads(outcome.log_json)["result"] == expected


@pytest.mark.parametrize("declared", [give, agive], ids=["function", "coroutine"])
def test_signals_are_sent_when_a_task_starts_and_ends(declared, perform, told):
    perform(lease_of(declared))

    assert [entry[:3] for entry in told] == [
        ("started", TaskResultStatus.RUNNING, "RedisBackend"),
        ("finished", TaskResultStatus.SUCCESSFUL, "RedisBackend"),
    ]


def test_a_task_that_is_tried_again_is_not_finished(perform, told):
    perform(lease_of(throw))
    perform(lease_of(throw, attempt=3))

    assert [entry[:2] for entry in told] == [
        ("started", TaskResultStatus.RUNNING),
        ("started", TaskResultStatus.RUNNING),
        ("finished", TaskResultStatus.FAILED),
    ]


@pytest.mark.parametrize("declared", [throw, athrow], ids=["function", "coroutine"])
def test_django_s_own_line_shows_the_exception(declared, perform, caplog):
    with caplog.at_level(logging.INFO, signals.logger.name):
        perform(lease_of(declared, attempt=3))

    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.name == signals.logger.name
    assert line.exc_info[0] is ValueError


def test_a_receiver_that_fails_changes_nothing(perform):
    def receive(**kwargs):
        raise SystemExit

    signals.task_started.connect(receive)
    try:
        assert isinstance(perform(lease_of(give)), Succeeded)
    finally:
        signals.task_started.disconnect(receive)


@pytest.mark.parametrize(("releases", "delay_ms"), [(0, 5000), (3, 20000), (50, 60000)])
def test_an_unknown_name_goes_back_with_a_growing_delay(releases, delay_ms, perform):
    assert perform(make_lease("shop.tasks.not_yet", releases=releases)) == Released(delay_ms, unknown=True)


def test_an_unknown_version_goes_back_too(perform):
    assert perform(make_lease("", envelope=b'{"v":2,"name":"x"}')) == Released(5000, unknown=True)


def test_a_name_that_stays_unknown_for_too_long_is_buried(perform, told):
    outcome = perform(make_lease("shop.tasks.not_yet", unknown_ms=100_000))

    assert outcome.delay_ms is None
    assert outcome.error.error == f"{UnknownTask.__module__}.UnknownTask"
    assert [entry[:2] for entry in told] == [("finished", TaskResultStatus.FAILED)]


def test_what_is_known_and_no_task_is_buried_at_once(perform):
    outcome = perform(make_lease("tests.app.test_execution.no_task"))

    assert (outcome.delay_ms, outcome.error.reason) == (None, "no task")


def test_what_cannot_be_read_is_buried_at_once(perform):
    outcome = perform(make_lease("", envelope=b"{broken"))

    assert (outcome.delay_ms, outcome.error.reason) == (None, "unreadable record")


def test_language_and_time_zone_do_not_stay(perform):
    before = translation.get_language(), timezone.get_current_timezone_name()

    assert perform(lease_of(change_thread)).log_json == b'{"result":"de"}'

    assert (translation.get_language(), timezone.get_current_timezone_name()) == before


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_broke_is_closed_before_the_next_task(perform, monkeypatch):
    perform(lease_of(query))
    connection, closed = connections["default"], []
    connection_created.send(type(connection), connection=connection)
    monkeypatch.setattr(connection, "errors_occurred", True)
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    monkeypatch.setattr(connection, "close", lambda: closed.append(True))

    perform(lease_of(give))

    assert closed


def test_a_task_without_queries_opens_no_connection(perform, django_db_blocker):
    with django_db_blocker.block():
        assert isinstance(perform(lease_of(give)), Succeeded)
