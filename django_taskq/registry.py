"""Which name stands for which task; a worker calls only what is found here."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib import import_module

from django.apps import apps
from django.conf import settings

from .compat import Task, base

logger = logging.getLogger("django_taskq")

#: Wire name -> import path -> the task declared there, in the order of declaration.
_declared: dict[str, dict[str, Task]] = {}


class NotATask(Exception):
    """What this name stands for can be imported, but is no task."""


def wire_name(task: Task) -> str:
    """Return the name that a task has in the queue; a stock task's is its import path."""
    return getattr(task, "wire_name", None) or task.module_path


def register(task: Task) -> None:
    """Remember a declared task; a module that is loaded again replaces its own."""
    _declared.setdefault(wire_name(task), {})[task.module_path] = task


def find(name: str, path: str | None = None) -> Task | None:
    """Return the task that bears a wire name, or None when this process can't tell what it stands for.

    `path` is where its module says that it is, when that differs from the name. Raise `NotATask` for
    what can be imported and is no task: it is never called.
    """
    # The path comes from Redis, where any client may have written it.
    path = path if isinstance(path, str) and path else name
    task = _registered(name, path)
    if task is None:
        found = _imported(path)
        # Its module may have declared it on being imported, whatever the path itself leads to.
        task = _registered(name, path)
        if task is None and isinstance(found, base.Task):
            # A task that was given a name later still answers to its import path, which stands in older records.
            return found if name in (wire_name(found), found.module_path) else None
        if task is None and found is not None:
            raise NotATask(f"{path} is no task.")
    return task


def modules() -> list[str]:
    """Return where tasks are mostly declared, whether there is such a module or not: `tasks` of each app and of the
    project's own package, which needn't be an app.
    """
    packages = [config.name for config in apps.get_app_configs()]
    project, dot, _ = str(getattr(settings, "ROOT_URLCONF", "")).partition(".")
    return [f"{package}.tasks" for package in dict.fromkeys([*packages, project] if dot else packages)]


def tasks() -> list[Task]:
    """Return all tasks that were declared."""
    return [task for paths in _declared.values() for task in paths.values()]


def names() -> list[str]:
    """Return the names of all tasks that were declared."""
    return sorted(_declared)


def clashes() -> dict[str, list[str]]:
    """Return the names that several tasks bear, with their import paths; such a path is a name of its task, too."""
    bearers = {name: {*tasks, *_standing_at(name)} for name, tasks in _declared.items()}
    return {name: sorted(paths) for name, paths in bearers.items() if len(paths) > 1}


def is_remote(name: str) -> bool:
    """Tell whether a task was declared with this name that another program works on."""
    return any(getattr(task, "is_remote", False) for task in _declared.get(name, {}).values())


def _standing_at(path: str) -> Iterator[str]:
    """Yield the import path of the task that stands at this one in a module that is loaded."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, base.Task):
        yield found.module_path


def _registered(name: str, path: str) -> Task | None:
    """Return the task that was declared with a name: the one at this path, or else the first."""
    # A module whose import failed half-way is gone again; what it declared before isn't fit to run.
    declared = {at: task for at, task in _declared.get(name, {}).items() if task.func.__module__ in sys.modules}
    return declared.get(path) or next(iter(declared.values()), None)


def _imported(path: str) -> object | None:
    """Import what a dotted path names; whatever its module raises, it is only absent."""
    module, _, name = path.rpartition(".")
    if not module:
        return None
    try:
        return getattr(import_module(module), name, None)
    except (Exception, SystemExit) as error:
        if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
            logger.warning("%s can't be imported", module, exc_info=True)
        return None
