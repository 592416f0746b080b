"""The app."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, register
from django.core.exceptions import ImproperlyConfigured

from . import checks, registry
from .compat import InvalidTaskBackend, task_backends
from .task import BackgroundTask


class TaskqConfig(AppConfig):
    name = "django_taskq"
    verbose_name = "Task queue"

    def ready(self) -> None:
        register(check_backends)
        register(checks.check_names)
        register(checks.check_remote_queues)
        register(check_outboxes)


def check_backends(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that TASKS uses the backend, and the databases with it; Django itself checks each of its entries."""
    from .backend import RedisBackend

    try:
        used = [backend for backend in task_backends.all() if isinstance(backend, RedisBackend)]
    except ImproperlyConfigured:
        return []  # Django says which backend can't be imported.
    if not used:
        return [checks.missing_backend()]
    places = {}
    for backend in used:
        with contextlib.suppress(ImproperlyConfigured):  # it is said elsewhere
            places[backend.alias] = backend.conf.url, backend.conf.namespace
    return [*checks.check_sqlite(), *checks.check_namespaces(places)]


def check_outboxes(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check the databases of the tasks that have an outbox; no other backend keeps rows for them."""
    from .backend import RedisBackend

    checks.load_tasks()
    found: list[CheckMessage] = []
    for task in registry.tasks():
        # What is wrong with its backend is said above, or by Django.
        with contextlib.suppress(InvalidTaskBackend, ImproperlyConfigured):
            if isinstance(task, BackgroundTask) and isinstance(task.get_backend(), RedisBackend):
                found += checks.check_outbox(task)
    return found
