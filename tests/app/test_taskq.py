"""`manage.py taskq`: its sub-commands and what it refuses."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError
from django.test import override_settings
from django.utils import timezone

from django_taskq.management.actions import prune
from django_taskq.management.actions.base import duration
from django_taskq.models import TaskRecord
from tests.app.test_task import DUMMY


def taskq(*arguments):
    output = StringIO()
    call_command("taskq", *arguments, stdout=output)
    return output.getvalue()


def with_options(**options):
    entry = settings.TASKS["default"]
    return override_settings(TASKS={"default": {**entry, "OPTIONS": {**entry["OPTIONS"], **options}}})


def keep(record_id, days, backend="default"):
    ended = timezone.now() - timedelta(days=days)
    TaskRecord.objects.create(
        id=record_id, backend=backend, task="a.b", queue="q", status="succeeded", envelope="{}", enqueued_at=ended,
        finished_at=ended,
    )  # fmt: skip


def kept():
    return sorted(TaskRecord.objects.values_list("pk", flat=True))


@pytest.mark.django_db
def test_prune_deletes_what_is_older_than_said():
    keep("old", days=8)
    keep("young", days=6)
    keep("elsewhere", days=8, backend="other")
    assert taskq("prune", "--older-than", "7d") == "Deleted 1 task record.\n"
    assert kept() == ["elsewhere", "young"]


@pytest.mark.django_db
def test_prune_goes_by_records_ttl():
    keep("old", days=8)
    keep("older", days=9)
    with with_options(records="finished", records_ttl=7 * 86_400):
        assert json.loads(taskq("prune", "--json", "--batch", "1")) == {"deleted": 2}
    assert kept() == []


def test_prune_without_an_age_says_what_is_missing():
    with pytest.raises(CommandError, match="--older-than") as caught:
        taskq("prune")
    assert caught.value.returncode == 2


def test_prune_says_what_the_database_refused(monkeypatch):
    def refuse(*args, **kwargs):
        raise DatabaseError("read only")

    monkeypatch.setattr(prune, "prune", refuse)
    with pytest.raises(CommandError, match="read only"):
        taskq("prune", "--older-than", "1d")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["status"],
        ["prune", "--older-than", "soon"],
        ["prune", "--older-than", "-1d"],
        ["prune", "--older-than", "1d", "--batch", "0"],
        ["prune", "--older-than", "1d", "--batch", "10001"],
        ["prune", "--older-than", "1d", "id"],
    ],
)
def test_what_it_does_not_know_is_refused(arguments):
    with pytest.raises(CommandError):
        taskq(*arguments)


@pytest.mark.parametrize("backend", ["nowhere", "dummy"])
def test_a_backend_that_is_none_of_ours_is_refused(backend):
    with (
        override_settings(TASKS={**settings.TASKS, "dummy": {"BACKEND": DUMMY}}),
        pytest.raises(CommandError, match=backend) as caught,
    ):
        taskq("prune", "--backend", backend, "--older-than", "1d")
    assert caught.value.returncode == 2


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("30d", 2_592_000), ("2w", 1_209_600)]
)
def test_ages_have_units(text, expected):
    assert duration(text) == expected
