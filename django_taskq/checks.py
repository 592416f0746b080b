"""System checks. They read settings and declarations, and never touch the network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import connections, router

from . import registry
from .broker.exceptions import InvalidName
from .broker.keys import check_queue_name
from .compat import DEFAULT_TASK_QUEUE_NAME
from .conf import Options, Problem, did_you_mean, misplaced


def check_backend(alias: str, params: Mapping[str, Any]) -> list[CheckMessage]:
    """Check one entry of TASKS: its options and its queues."""
    options = params.get("OPTIONS", {})
    where = f"TASKS[{alias!r}]"
    messages: list[CheckMessage] = [
        Error(problem.text, hint=problem.hint, obj=where, id=f"django_taskq.{problem.code}")
        for problem in [*misplaced(params), *Options.problems(options)]
    ]
    on_commit = options.get("on_commit") if isinstance(options, Mapping) else None
    if isinstance(on_commit, str) and on_commit not in settings.DATABASES:
        hint = did_you_mean(on_commit, settings.DATABASES) or "It takes True, False or an alias of DATABASES."
        text = f"on_commit names the database {on_commit!r}, which isn't in DATABASES."
        messages.append(Error(text, hint=hint.strip(), obj=where, id="django_taskq.E003"))
    messages += [
        Error(text, hint=QUEUES_HINT, obj=where, id="django_taskq.E004")
        for text in _queue_problems(params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]))
    ]
    if isinstance(options, Mapping) and options.get("records", "none") not in ("none", None):
        messages += [
            Error(text, hint=hint, obj=where, id=f"django_taskq.{code}") for text, hint, code in _row_problems()
        ]
    return messages


QUEUES_HINT = 'A list of names, for example ["default", "mail"]; an empty one allows any name.'


def _queue_problems(queues: object) -> Iterable[str]:
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        yield f"QUEUES must be a list, not {queues!r}."
        return
    for name in queues:
        try:
            check_queue_name(name)
        except InvalidName as error:
            yield str(error)


def _row_problems() -> Iterable[Problem]:
    """Say why no rows can be kept."""
    if not apps.is_installed("django_taskq"):
        hint = "Add 'django_taskq' to INSTALLED_APPS, and migrate."
        yield Problem("records needs the app: its table would be missing.", hint, "E006")
        return
    from .models import TaskRecord
    from .upsert import VENDORS

    connection = connections[router.db_for_write(TaskRecord)]
    if connection.vendor not in VENDORS:
        text = f"records can't be kept in the database {connection.alias!r}, which is {connection.display_name}."
        yield Problem(text, "It takes PostgreSQL, MariaDB or SQLite; a database router may name another one.", "E007")


def check_sqlite() -> list[CheckMessage]:
    """Check that several threads can write to each SQLite database at once."""
    return [
        Warning(
            f"The SQLite database {alias!r} isn't set up for the threads of a worker: they will find it locked.",
            hint='Set its OPTIONS to {"init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE", '
            '"timeout": 20}, or run the worker with --processes 1 --threads 1 and silence this.',
            obj=f"DATABASES[{alias!r}]",
            id="django_taskq.W002",
        )
        for alias in connections
        if connections[alias].vendor == "sqlite" and not _takes_several_writers(connections[alias])
    ]


def _takes_several_writers(connection: Any) -> bool:
    options = connection.settings_dict.get("OPTIONS", {})
    is_wal = "wal" in str(options.get("init_command", "")).lower()
    waits = str(options.get("transaction_mode", "")).upper() in ("IMMEDIATE", "EXCLUSIVE") and "timeout" in options
    return bool(connection.is_in_memory_db() or (is_wal and waits))


def check_names(app_configs: Iterable[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that no two tasks have one name: a worker couldn't tell which of them is meant."""
    for config in apps.get_app_configs():
        # Tasks that nothing has imported yet are mostly declared here. What fails is said by whoever needs it.
        with contextlib.suppress(Exception):
            import_module(f"{config.name}.tasks")
    return [
        Error(
            f"Several tasks have the name {name!r}: {', '.join(paths)}.",
            hint="Give each a name of its own, as in @background(name=...).",
            id="django_taskq.E005",
        )
        for name, paths in registry.clashes().items()
    ]


def missing_backend() -> CheckMessage:
    """Say that the app is installed and nothing uses it."""
    return Warning(
        "No entry of TASKS uses django_taskq, so its worker has nothing to do.",
        hint='Set TASKS = {"default": {"BACKEND": "django_taskq.backend.RedisBackend"}}.',
        id="django_taskq.W001",
    )
