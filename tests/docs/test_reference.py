"""The pages to look things up in: their snippets run, and their tables are complete and right."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shutil
from dataclasses import replace

import pytest
from django.core.management import BaseCommand, load_command_class

from django_taskq.broker.client import check_url
from django_taskq.broker.retry import RetryPolicy
from django_taskq.conf import Options
from django_taskq.context import BackgroundContext
from django_taskq.management.actions import ACTIONS
from django_taskq.task import BackgroundTask, Declaration
from tests.docs.markdown import steps
from tests.docs.project import ROOT, Project
from tests.node import build

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
TUTORIAL = (DOCS / "tutorial" / "first-steps.md").read_text()
SETTINGS = (DOCS / "reference" / "settings.md").read_text()
COMMANDS = (DOCS / "reference" / "commands.md").read_text()
TASKS = (DOCS / "reference" / "tasks.md").read_text()
PAGES = [
    "reference/settings.md",
    "reference/commands.md",
    "reference/tasks.md",
    "reference/admin.md",
    "reference/redis.md",
    "reference/protocol.md",
    "explanation/guarantees.md",
    "explanation/exactly-once.md",
    "explanation/ledger.md",
    "explanation/performance.md",
    "how-to/outbox.md",
    "how-to/nodejs.md",
]


@pytest.fixture(scope="module")
def bakery(tmp_path_factory):
    """Make the project of the tutorial, without a Redis."""
    project = Project(tmp_path_factory.mktemp("bakery"), "redis://127.0.0.1:1/0")
    project.follow(TUTORIAL.partition("## A task follows its transaction")[0])
    return project.folder


@pytest.fixture
def copy(bakery, tmp_path, redis_url):
    """Give the project of the tutorial to a test, on its own Redis."""
    folder = shutil.copytree(bakery, tmp_path / "bakery")
    settings = folder / "bakery" / "settings.py"
    text = settings.read_text().replace("redis://127.0.0.1:1/0", redis_url)
    settings.write_text(text.replace('"QUEUES": ["default"]', '"QUEUES": ["default", "mail", "receipts"]'))
    project = Project(folder, redis_url)
    yield project
    project.stop()


def rows(page, heading):
    """Return the cells of the first table behind a heading, without its head."""
    table = re.search(rf"^#+ {re.escape(heading)}\n.*?^(\|.*?)^[^|]", page + "\n.", re.M | re.S)[1]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


@pytest.mark.timeout(300)  # The client for Node.js may have to be built.
@pytest.mark.parametrize("page", PAGES)
def test_each_snippet_of_a_page_runs(page, copy):
    text = (DOCS / page).read_text()
    if "npm install" in text:
        build.require()
    copy.follow(text)


@pytest.mark.timeout(120)
def test_each_snippet_of_the_readme_runs(copy):
    scripts = [step for step in steps(README) if step.kind == "script"]
    assert len(scripts) == 3
    for step in scripts:
        copy.do(step)


@pytest.mark.timeout(300)
def test_the_worker_of_the_readme_serves_until_it_is_stopped(copy):
    build.require()
    [worker] = [step for step in steps(README) if step.kind == "module"]
    copy.command("npm install django-taskq-redis", [])
    copy.do(replace(worker, kind="write", path="worker.mjs"))
    copy.command("node worker.mjs", [])


def test_every_page_is_run_by_a_test():
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "decisions"}
    assert pages == {*PAGES, "README.md", "tutorial/first-steps.md", "tutorial/two-languages.md"}


def test_the_table_of_options_is_complete_and_has_their_defaults():
    defaults = {name.strip("`"): ast.literal_eval(default.strip("`")) for name, default, _ in rows(SETTINGS, "Options")}
    defaults["backoff"] = RetryPolicy.parse(defaults["backoff"])
    expected = Options()
    assert defaults == {name: getattr(expected, name) for name in Options.__dataclass_fields__}


def test_the_urls_in_the_settings_are_taken():
    for url, _ in rows(SETTINGS, "`url`"):
        check_url(url.strip("`"))


def test_the_system_checks_are_all_listed():
    named = {line[0].strip("`") for line in rows(SETTINGS, "System checks")}
    source = "".join(path.read_text() for path in (ROOT / "django_taskq").glob("*.py"))
    assert {name.partition(".")[2] for name in named} == set(re.findall(r'\b([EW]\d{3})"', source))


def names_in(heading):
    return [name for line in rows(TASKS, heading) for name in re.findall(r"`(\w+)", line[0])]


def test_what_a_task_takes_is_all_listed():
    assert {*names_in("`@background`")} == {"takes_context", *Declaration.__annotations__}
    assert {*names_in("`using()`")} == set(inspect.signature(BackgroundTask.using).parameters) - {"self"}


def test_what_the_context_tells_is_all_listed():
    told = {name for kind in BackgroundContext.__mro__ for name in vars(kind) if not name.startswith("_")}
    assert {*names_in("The context")} == told - {"watch"}


def flags_in(heading):
    return {flag for line in rows(COMMANDS, heading) for flag in re.findall(r"(?<!\w)--?[a-z-]+", line[0])}


def test_every_action_of_taskq_has_its_flags_listed():
    assert set(re.findall(r"^### `taskq (\w+)`$", COMMANDS, re.MULTILINE)) == set(ACTIONS)
    for name, action in ACTIONS.items():
        parser = argparse.ArgumentParser(add_help=False)
        action.add_arguments(parser)
        assert flags_in(f"`taskq {name}`") == set(parser._option_string_actions)


def test_the_flags_of_the_worker_are_all_listed():
    flags = flags_in("`manage.py runtaskworker`")
    parser = load_command_class("django_taskq", "runtaskworker").create_parser("manage.py", "runtaskworker")
    django = BaseCommand().create_parser("manage.py", "any")
    assert flags == set(parser._option_string_actions) - set(django._option_string_actions)


def test_links_lead_somewhere():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
