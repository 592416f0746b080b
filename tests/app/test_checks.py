"""System checks: what is wrong with TASKS and with declarations, said without asking Redis."""

from __future__ import annotations

import socket
import sys

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections
from django.test import override_settings

import tests.app
from django_taskq import background, registry
from django_taskq.compat import task
from tests.app import tasks
from tests.app.test_task import DUMMY

PATH = "django_taskq.backend.RedisBackend"


def messages(**entry):
    """Return what the checks say of a TASKS entry, without other apps' messages."""
    with override_settings(TASKS={"default": {"BACKEND": PATH, **entry}}):
        return [message for message in run_checks() if (message.id or "").startswith("django_taskq.")]


def ids(**entry):
    return [message.id for message in messages(**entry)]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Fail when anything connects."""

    def refuse(*args, **kwargs):
        raise AssertionError("a check opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(autouse=True)
def own_tasks(monkeypatch):
    """Let no task count that the modules of other tests declare."""
    monkeypatch.setattr(registry, "_declared", {})


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"QUEUES": []},
        {"QUEUES": ("default", "späti")},
        {"OPTIONS": {"url": "rediss://user:secret@redis.invalid:6380/1", "timeout": 0.3, "lease_seconds": 0.25}},
        {"OPTIONS": {"on_commit": "other", "max_attempts": 1}},
        {"ID_FUNCTION": "x", "worker": {}, "LOCATION": ""},
    ],
)
def test_what_is_right_is_passed_over(entry):
    assert messages(**entry) == []


def test_an_unknown_option_is_named_with_the_near_one():
    (message,) = messages(OPTIONS={"lease_second": 30})

    assert message.id == "django_taskq.E001"
    assert "'lease_second'" in message.msg
    assert message.hint == "Did you mean 'lease_seconds'?"
    assert message.obj == "TASKS['default']"


@pytest.mark.parametrize("key", ["url", "lease_seconds", "URL"])
def test_an_option_one_level_too_high_is_named(key):
    (message,) = messages(**{key: "redis://localhost"})

    assert message.id == "django_taskq.E001"
    assert message.msg == f"{key!r} belongs into OPTIONS."
    assert message.obj == "TASKS['default']"


@pytest.mark.parametrize(("key", "meant"), [("QUEUE", "QUEUES"), ("queues", "QUEUES"), ("OPTION", "OPTIONS")])
def test_a_mistyped_key_is_named_with_the_near_one(key, meant):
    (message,) = messages(**{key: {}})

    assert message.id == "django_taskq.E001"
    assert message.msg == f"Unknown key {key!r}."
    assert message.hint == f"Did you mean {meant!r}?"


@pytest.mark.parametrize(
    "options",
    [
        {"lease_seconds": 0.1},
        {"max_attempts": 0},
        {"timeout": 0},
        {"url": "http://localhost"},
        {"namespace": "a:b"},
        5,
        None,
    ],
)
def test_a_bad_option_is_an_error(options):
    (message,) = messages(OPTIONS=options)

    assert message.id == "django_taskq.E002"


def test_every_problem_has_a_message():
    assert ids(OPTIONS={"urll": 1, "timeout": 0, "on_commit": "nowhere"}, QUEUES=[""]) == [
        "django_taskq.E001", "django_taskq.E002", "django_taskq.E003", "django_taskq.E004",
    ]  # fmt: skip


def test_a_password_is_not_shown():
    shown = "".join(str(message) for message in messages(OPTIONS={"url": "ftp://user:secret@host/0"}))

    assert shown
    assert "secret" not in shown


def test_a_database_that_does_not_exist_is_an_error():
    (message,) = messages(OPTIONS={"on_commit": "othr"})

    assert (message.id, message.hint) == ("django_taskq.E003", "Did you mean 'other'?")


@pytest.mark.parametrize("queues", [[""], ["a:b"], ["a}b"], ["*"], ["x" * 101], ["a\nb"], [5], "default", None, 5])
def test_c54_a_bad_queue_name_is_an_error(queues):
    assert ids(QUEUES=queues) == ["django_taskq.E004"]


def test_an_app_without_its_backend_is_a_warning():
    with override_settings(TASKS={"default": {"BACKEND": DUMMY}}):
        found = [message for message in run_checks() if (message.id or "").startswith("django_taskq.")]

    assert [message.id for message in found] == ["django_taskq.W001"]
    assert PATH in found[0].hint


def test_a_backend_under_any_alias_counts():
    with override_settings(TASKS={"default": {"BACKEND": DUMMY}, "queue": {"BACKEND": PATH}}):
        assert not [message for message in run_checks() if (message.id or "").startswith("django_taskq.")]


def test_two_entries_with_one_queue_are_a_warning():
    odd = {"OPTIONS": {"namespace": 5}}
    entries = {
        "default": {},
        "mail": {"OPTIONS": {"max_attempts": 5}},
        "apart": {"OPTIONS": {"namespace": "a"}},
        "odd": odd,
    }
    with override_settings(TASKS={alias: {"BACKEND": PATH, **entry} for alias, entry in entries.items()}):
        (found,) = [message for message in run_checks() if message.id == "django_taskq.W003"]
    assert "the namespace 'taskq' of one Redis: 'default', 'mail'." in found.msg


def test_rows_without_their_table_are_an_error():
    installed = [name for name in settings.INSTALLED_APPS if name != "django_taskq"]
    with override_settings(INSTALLED_APPS=installed):
        assert ids(OPTIONS={"records": "finished"}) == ["django_taskq.E006"]
        assert ids(OPTIONS={"records": "none"}) == []
    assert ids(OPTIONS={"records": "finished"}) == []


def test_a_database_that_can_keep_no_rows_is_an_error(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "oracle", raising=False)

    assert ids(OPTIONS={"records": "finished"}) == ["django_taskq.E007"]
    assert ids(OPTIONS={}) == []


WELL_SET = {"init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE", "timeout": 20}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("db.sqlite3", {}, ["default"]),
        ("db.sqlite3", WELL_SET, []),
        ("db.sqlite3", {**WELL_SET, "init_command": "PRAGMA cache_size=1"}, ["default"]),
        ("db.sqlite3", {**WELL_SET, "transaction_mode": "DEFERRED"}, ["default"]),
        ("db.sqlite3", {"init_command": "PRAGMA JOURNAL_MODE = wal;", "transaction_mode": "immediate"}, ["default"]),
        (":memory:", {}, []),
    ],
)
def test_a_sqlite_database_that_takes_one_writer_only_is_a_warning(name, options, expected, monkeypatch):
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", name)
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", options)
    found = [message for message in run_checks() if message.id == "django_taskq.W002"]

    assert [message.obj for message in found] == [f"DATABASES['{alias}']" for alias in expected]
    assert all("journal_mode=WAL" in message.hint for message in found)


def outbox_messages(monkeypatch, **declared):
    """Return what the checks say of a task that is declared so."""
    monkeypatch.setattr(registry, "_declared", {})
    with override_settings(TASKS={"default": {"BACKEND": PATH}, "dummy": {"BACKEND": DUMMY}}):
        background(**declared)(first)
        return [message for message in run_checks() if (message.id or "").startswith("django_taskq.E")]


@pytest.mark.parametrize("option", ["outbox", "atomic"])
def test_an_outbox_in_a_database_that_is_none_is_an_error(monkeypatch, option):
    (message,) = outbox_messages(monkeypatch, **{option: "othre"})

    assert (message.id, message.hint) == ("django_taskq.E003", "Did you mean 'other'?")
    assert message.msg == f"{option} names the database 'othre', which isn't in DATABASES."
    assert message.obj.endswith("test_checks.first")
    assert outbox_messages(monkeypatch, **{option: "other"}) == []
    assert outbox_messages(monkeypatch, **{option: "othre"}, backend="dummy") == []


@pytest.mark.parametrize("declared", [{"outbox": True}, {"atomic": True}])
def test_an_outbox_without_its_table_is_an_error(monkeypatch, declared):
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_taskq")

    assert [message.id for message in outbox_messages(monkeypatch, **declared)] == ["django_taskq.E006"]
    assert outbox_messages(monkeypatch) == []


@pytest.mark.parametrize(
    ("declared", "count"),
    [
        ({"outbox": True}, 0),
        ({"outbox": "other"}, 1),
        ({"atomic": "other"}, 1),
        ({"outbox": True, "atomic": "other"}, 1),
    ],
)
def test_an_outbox_in_a_database_that_can_keep_none_is_an_error(monkeypatch, declared, count):
    monkeypatch.setattr(connections["other"], "vendor", "oracle", raising=False)

    assert [message.id for message in outbox_messages(monkeypatch, **declared)] == ["django_taskq.E007"] * count


@pytest.mark.parametrize(
    ("declared", "databases"),
    [
        ({"outbox": True}, []),
        ({"atomic": True}, ["default"]),
        ({"atomic": "other"}, ["other"]),
        ({"atomic": True, "outbox": "other"}, ["other"]),
        ({"atomic": "default", "outbox": "other"}, ["default"]),
    ],
)
def test_atomic_tasks_need_a_sqlite_database_that_is_locked_from_the_start(monkeypatch, declared, databases):
    for alias in ("default", "other"):
        monkeypatch.setitem(connections[alias].settings_dict, "NAME", "db.sqlite3")
    found = outbox_messages(monkeypatch, **declared)

    assert [message.id for message in found] == ["django_taskq.E009"] * len(databases)
    assert all(repr(alias) in message.msg for alias, message in zip(databases, found, strict=True))
    for alias in databases:
        monkeypatch.setitem(connections[alias].settings_dict, "OPTIONS", WELL_SET)
    assert outbox_messages(monkeypatch, **declared) == []


def test_an_outbox_of_a_backend_that_does_not_wait_is_an_error():
    assert ids(OPTIONS={"records": "outbox", "on_commit": False}) == ["django_taskq.E008"]
    assert ids(OPTIONS={"records": "outbox"}) == []


def test_two_tasks_with_one_name_are_an_error(monkeypatch):
    monkeypatch.setattr(registry, "_declared", {})
    background(name="receipt")(first)
    background(name="receipt")(second)
    (message,) = messages()

    assert message.id == "django_taskq.E005"
    assert "'receipt'" in message.msg
    assert f"{__name__}.first, {__name__}.second" in message.msg


@pytest.mark.parametrize("name", ["receipt", f"{__name__}.stock", f"{__name__}.renamed"])
def test_a_remote_task_with_the_name_of_one_that_runs_here_is_an_error(monkeypatch, name):
    monkeypatch.setattr(registry, "_declared", {})
    background(name="receipt")(first)
    background(name=name, queue_name="receipts", remote=True)(second)
    (message,) = [message for message in messages(QUEUES=[]) if message.id == "django_taskq.E005"]

    assert f"{__name__}.second" in message.msg


def test_a_remote_task_in_a_queue_that_is_served_here_is_a_warning(monkeypatch):
    monkeypatch.setattr(registry, "_declared", {})
    background(name="receipt", remote=True)(first)
    assert ids() == []
    background(second)
    (message,) = messages()

    assert message.id == "django_taskq.W004"
    assert "'receipt' is in the queue 'default'" in message.msg
    assert "queue of its own" in message.hint


def test_tasks_that_nothing_has_imported_are_seen(monkeypatch):
    monkeypatch.setattr(registry, "_declared", {})
    monkeypatch.setattr(tests.app, "tasks", tasks)  # put back afterwards
    monkeypatch.delitem(sys.modules, "tests.app.tasks")
    background(name="send_welcome")(first)
    (message,) = messages(QUEUES=[])

    assert "tests.app.tasks.send" in message.msg


def test_a_check_of_the_project_fails_with_the_message():
    with (
        override_settings(TASKS={"default": {"BACKEND": PATH, "OPTIONS": {"ulr": ""}}}),
        pytest.raises(SystemCheckError, match=r"django_taskq\.E001.*Unknown option 'ulr'"),
    ):
        call_command("check")


@task
def stock(): ...


renamed = background(name="renamed")(stock.func)


def first(): ...


def second(): ...
