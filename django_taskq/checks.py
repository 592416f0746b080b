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
from .task import BackgroundTask, RemoteTask, remote_queues


def check_backend(alias: str, params: Mapping[str, Any]) -> list[CheckMessage]:
    """Check one entry of TASKS: its options and its queues."""
    options = params.get("OPTIONS", {})
    where = f"TASKS[{alias!r}]"
    messages: list[CheckMessage] = [
        Error(problem.text, hint=problem.hint, obj=where, id=f"django_taskq.{problem.code}")
        for problem in [*misplaced(params), *Options.problems(options)]
    ]
    messages += _alias_problems("on_commit", options.get("on_commit") if isinstance(options, Mapping) else None, where)
    messages += [
        Error(text, hint=QUEUES_HINT, obj=where, id="django_taskq.E004")
        for text in _queue_problems(params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]))
    ]
    if isinstance(options, Mapping) and options.get("records", "none") not in ("none", None):
        messages += [
            Error(text, hint=hint, obj=where, id=f"django_taskq.{code}")
            for text, hint, code in _row_problems("records")
        ]
    return messages


def _alias_problems(option: str, value: object, where: object) -> Iterable[CheckMessage]:
    if isinstance(value, str) and value not in settings.DATABASES:
        hint = did_you_mean(value, settings.DATABASES) or "It takes True, False or an alias of DATABASES."
        text = f"{option} names the database {value!r}, which isn't in DATABASES."
        yield Error(text, hint=hint.strip(), obj=where, id="django_taskq.E003")


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


def _row_problems(option: str, alias: str | None = None) -> Iterable[Problem]:
    """Say why no rows can be kept in a database; the router names it where nothing does."""
    if not apps.is_installed("django_taskq"):
        hint = "Add 'django_taskq' to INSTALLED_APPS, and migrate."
        yield Problem(f"{option} needs the app: its table would be missing.", hint, "E006")
        return
    from .models import TaskRecord
    from .upsert import VENDORS

    connection = connections[alias or router.db_for_write(TaskRecord)]
    if connection.vendor not in VENDORS:
        text = f"{option} can't be kept in the database {connection.alias!r}, which is {connection.display_name}."
        yield Problem(text, "It takes PostgreSQL, MariaDB or SQLite; a database router may name another one.", "E007")


def check_outbox(task: BackgroundTask[..., Any]) -> list[CheckMessage]:
    """Check the databases of a task with an outbox."""
    where = task.module_path
    found = [
        *_alias_problems("outbox", task.outbox, where),
        *_alias_problems("atomic", task.atomic, where),
    ]
    if found or not (task.outbox or task.atomic):
        return found
    problems = [*_row_problems("atomic" if task.atomic else "outbox", _named(task.outbox, task.atomic))]
    if task.atomic and not problems:
        problems += _effect_problems(_named(task.atomic, task.outbox))
    return [Error(text, hint=hint, obj=where, id=f"django_taskq.{code}") for text, hint, code in problems]


def _named(*choices: object) -> str | None:
    """Return the first alias of a database; None leaves it to the router."""
    return next((choice for choice in choices if isinstance(choice, str)), None)


def _effect_problems(alias: str | None) -> Iterable[Problem]:
    """Say why the effects of atomic tasks can't go into a database."""
    from .models import TaskRecord

    yield from _row_problems("atomic", alias)
    connection: Any = connections[alias or router.db_for_write(TaskRecord)]
    if connection.vendor == "sqlite" and not connection.is_in_memory_db() and not _begins_to_write(connection):
        text = f"An atomic task may find the SQLite database {connection.alias!r} locked where it ends, and run again."
        yield Problem(text, 'Set its OPTIONS to {"transaction_mode": "IMMEDIATE", …}.', "E009")


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
    waits = _begins_to_write(connection) and "timeout" in options
    return bool(connection.is_in_memory_db() or (is_wal and waits))


def _begins_to_write(connection: Any) -> bool:
    """Tell whether each transaction takes the lock to write when it begins."""
    mode = connection.settings_dict.get("OPTIONS", {}).get("transaction_mode", "")
    return str(mode).upper() in ("IMMEDIATE", "EXCLUSIVE")


def load_tasks() -> None:
    """Import where tasks are mostly declared. What fails is said by whoever needs it."""
    for module in registry.modules():
        with contextlib.suppress(Exception):
            import_module(module)


def check_names(app_configs: Iterable[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that no two tasks have one name: a worker couldn't tell which of them is meant."""
    load_tasks()
    return [
        Error(
            f"Several tasks have the name {name!r}: {', '.join(paths)}.",
            hint="Give each a name of its own, as in @background(name=...).",
            id="django_taskq.E005",
        )
        for name, paths in registry.clashes().items()
    ]


def check_remote_queues(app_configs: Iterable[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that remote tasks have queues of their own: workers here would take them, and give them back later."""
    load_tasks()
    return [
        Warning(
            f"The remote task {task.wire_name!r} is in the queue {task.queue_name!r}, as tasks are that run here.",
            hint="Give it a queue of its own, which workers here then leave to the program that works on it.",
            obj=task.module_path,
            id="django_taskq.W004",
        )
        for task in registry.tasks()
        if isinstance(task, RemoteTask) and task.queue_name not in remote_queues(task.backend)
    ]


def check_namespaces(places: Mapping[str, tuple[str, str]]) -> list[CheckMessage]:
    """Check that no two entries of TASKS, each with its URL and namespace, have one queue."""
    entries: dict[tuple[str, str], list[str]] = {}
    for alias, place in places.items():
        entries.setdefault(place, []).append(alias)
    return [
        Warning(
            f"Several entries of TASKS have the namespace {namespace!r} of one Redis: {', '.join(map(repr, aliases))}.",
            hint="Give each a namespace of its own: the worker of one runs the others' tasks, and leaves their rows.",
            id="django_taskq.W003",
        )
        for (_, namespace), aliases in entries.items()
        if len(aliases) > 1
    ]


def missing_backend() -> CheckMessage:
    """Say that the app is installed and nothing uses it."""
    return Warning(
        "No entry of TASKS uses django_taskq, so its worker has nothing to do.",
        hint='Set TASKS = {"default": {"BACKEND": "django_taskq.backend.RedisBackend"}}.',
        id="django_taskq.W001",
    )
