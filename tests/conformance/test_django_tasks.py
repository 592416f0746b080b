"""Django's own tests of `django.tasks` against `RedisBackend`.

The tests are unchanged (`vendor/`). While they are imported, the names of the Dummy and Immediate backends stand for
ours, in their imports and in their settings. What can't apply is listed with the reason, and must really fail.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from unittest import mock

import django
import pytest
from django.test import SimpleTestCase, override_settings

if django.VERSION < (6, 0):
    pytest.skip("Django 5.2 has no django.tasks", allow_module_level=True)

from tests.conformance import backends
from tests.leaks import key_leaks

VENDOR = Path(__file__).parent / "vendor" / ("django61" if django.VERSION >= (6, 1) else "django60")

DUMMY = "django.tasks.backends.dummy.DummyBackend"
IMMEDIATE = "django.tasks.backends.immediate.ImmediateBackend"
OURS = {DUMMY: backends.WaitingBackend, IMMEDIATE: backends.DrainingBackend}

#: Usable tests of each module and Django version; what custom backends do is Django's own affair.
USABLE = {"test_tasks": 39, "test_dummy_backend": 17, "test_immediate_backend": 20}
if django.VERSION < (6, 1):
    USABLE["test_tasks"] = 34

#: Tests that state what Immediate can't do.
NOT_APPLICABLE = {
    "test_cannot_get_result": "our results can be read",
    "test_cannot_refresh_result": "our results can be refreshed",
    "test_cannot_pass_run_after": "we support run_after",
}


def override_settings_with_ours(**settings):
    """Be `override_settings`, with our backends in the place of Django's."""
    tasks = settings.get("TASKS", {})
    for alias, entry in tasks.items():
        ours = OURS.get(entry["BACKEND"])
        if ours is not None:
            tasks[alias] = {**entry, "BACKEND": f"{ours.__module__}.{ours.__qualname__}"}
    return override_settings(**settings)


def load_vendored():
    """Import Django's test modules as the top-level package `tasks`, as they expect to be."""
    with (
        mock.patch.object(sys, "path", [str(VENDOR), *sys.path]),
        mock.patch("django.test.override_settings", override_settings_with_ours),
        mock.patch(DUMMY, backends.WaitingBackend),
        mock.patch(IMMEDIATE, backends.DrainingBackend),
    ):
        return {name: importlib.import_module(f"tasks.{name}") for name in USABLE}


VENDORED = load_vendored()


def usable_classes():
    for module in VENDORED.values():
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, SimpleTestCase) and value.__module__ == module.__name__:
                yield name, value


def adapt(original):
    """Subclass one of Django's classes, with the tests that can't apply marked so."""
    members = {"__module__": __name__, "setUp": start_empty(original), "tearDown": leave_no_keys(original)}
    for name, reason in NOT_APPLICABLE.items():
        if hasattr(original, name):
            members[name] = pytest.mark.xfail(reason=reason, strict=True)(inherited(original, name))
    if hasattr(original, "test_throws_keyboard_interrupt"):
        members["test_throws_keyboard_interrupt"] = with_an_attempt_left(original)
    return type(original.__name__, (original,), members)


def start_empty(original):
    def setUp(self):
        ours = mock.patch("django_taskq.backend.shared_producer", return_value=backends.PRODUCER)
        ours.start()
        self.addCleanup(ours.stop)
        backends.CLIENT.flushall()
        original.setUp(self)

    return setUp


def leave_no_keys(original):
    def tearDown(self):
        original.tearDown(self)
        assert key_leaks(backends.CLIENT) == []

    return tearDown


def inherited(original, name):
    async def run(self):
        test = getattr(original, name)(self)
        if test is not None:
            await test

    return run


def with_an_attempt_left(original):
    """Let a worker told to stop have an attempt left: it reports the failure of a task only at the last."""

    def test_throws_keyboard_interrupt(self):
        with mock.patch.object(backends.DrainingBackend, "attempts", 2):
            original.test_throws_keyboard_interrupt(self)

    return test_throws_keyboard_interrupt


globals().update({name: adapt(original) for name, original in usable_classes()})


@pytest.mark.parametrize("name", USABLE)
def test_every_usable_test_of_django_is_run(name):
    classes = [value for _, value in usable_classes() if value.__module__ == f"tasks.{name}"]
    found = [test for value in classes for test in dir(value) if test.startswith("test_")]
    assert len(found) == USABLE[name]


def test_only_what_immediate_cannot_do_is_left_out():
    assert len(NOT_APPLICABLE) == 3
