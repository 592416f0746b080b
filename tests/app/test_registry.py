"""A worker calls only what is a task: names, paths, and what becomes of the others."""

from __future__ import annotations

import contextlib
import importlib
import sys

import pytest

from django_taskq import background, registry
from tests.app import tasks


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Give a function that writes a module that nothing has imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_declared", {})
    written = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_a_task_is_found_by_its_import_path():
    assert registry.find("tests.app.tasks.add") is tasks.add
    assert registry.find("tests.app.tasks.stock") is tasks.stock


def test_a_named_task_is_found_by_its_name_and_by_its_path():
    assert registry.find("send_welcome", "tests.app.tasks.send") is tasks.send
    assert registry.find("send_welcome", "an.older.place") is tasks.send
    assert registry.find("tests.app.tasks.send") is tasks.send


def test_a_module_is_imported_for_the_path_of_a_name(module):
    module("taskq_named", "from django_taskq import background\n@background(name='named')\ndef body(): ...\n")

    assert registry.find("named") is None
    assert registry.find("named", "taskq_named.body").wire_name == "named"
    assert registry.find("named") is not None


def test_a_task_that_stands_under_another_name_in_its_module_is_found(module):
    module("taskq_indirect", "from django_taskq import background\ndef body(): ...\nmade = background(body)\n")

    assert registry.find("taskq_indirect.body").wire_name == "taskq_indirect.body"


def test_a_task_at_the_path_that_bears_another_name_is_unknown():
    assert registry.find("another_name", "tests.app.tasks.add") is None


@pytest.mark.parametrize(
    "name",
    ["no.such.module", "tests.app.tasks.missing", "plain", "", "a b", "..", "tests.app.tasks.add.x", "é.ü", "a\x00b"],
)
def test_a_name_that_nothing_bears_is_unknown(name):
    assert registry.find(name) is None


@pytest.mark.parametrize("name", ["tests.app.tasks.not_a_task", "os.system", "tests.app.tasks.background"])
def test_what_is_no_task_is_refused(name):
    with pytest.raises(registry.NotATask):
        registry.find(name)
    with pytest.raises(registry.NotATask):
        registry.find("a_name", name)


@pytest.mark.parametrize("text", ["1 / 0", "import nothing_like_this", "raise SystemExit(3)", "def (:"])
def test_a_module_that_cannot_be_imported_is_only_absent(module, text, caplog):
    module("taskq_broken", text)

    assert registry.find("taskq_broken.body") is None
    assert "taskq_broken can't be imported" in caplog.text
    assert caplog.records[0].exc_info


def test_what_a_module_declared_before_its_import_failed_is_unknown(module):
    module("taskq_half", "from django_taskq import background\n@background(name='half')\ndef body(): ...\n1 / 0\n")

    for path in [None, "taskq_half.body", "an.older.place"]:
        assert registry.find("half", path) is None
    assert registry.find("taskq_half.body") is None

    with contextlib.suppress(ZeroDivisionError):
        importlib.import_module("taskq_half")
    assert registry.find("half") is None


def test_a_module_that_is_not_there_is_not_worth_a_line(caplog):
    assert registry.find("no.such.module") is None
    assert registry.find("tests.app.no_such_module.body") is None
    assert caplog.records == []


@pytest.mark.parametrize("path", [None, "", 5, [], {}])
def test_a_path_that_is_no_path_is_passed_over(path):
    assert registry.find("tests.app.tasks.add", path) is tasks.add
    assert registry.find("gone", path) is None


def test_names_that_two_tasks_bear_are_told(monkeypatch):
    monkeypatch.setattr(registry, "_declared", {})
    background(name="twice")(first)
    background(name="twice")(second)
    background(name="twice")(second)  # as when a module is loaded again
    background(name="once")(first)

    assert registry.clashes() == {"twice": [f"{__name__}.first", f"{__name__}.second"]}
    assert registry.find("twice", f"{__name__}.second").func is second


def first(): ...


def second(): ...


@pytest.mark.parametrize(
    ("urls", "package"), [("shop.config.urls", "shop.tasks"), ("urls", None), (None, None), ("django_taskq.urls", None)]
)
def test_tasks_are_looked_for_in_each_app_and_in_the_package_of_the_project(settings, urls, package):
    settings.ROOT_URLCONF = urls

    modules = registry.modules()

    assert "django_taskq.tasks" in modules
    assert len(modules) == len(set(modules))
    assert ("shop.tasks" in modules) == (package is not None)
    assert "urls.tasks" not in modules
