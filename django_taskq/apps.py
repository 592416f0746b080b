"""The app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, register
from django.core.exceptions import ImproperlyConfigured

from . import checks
from .compat import task_backends


class TaskqConfig(AppConfig):
    name = "django_taskq"
    verbose_name = "Task queue"

    def ready(self) -> None:
        register(check_backends)
        register(checks.check_names)


def check_backends(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that TASKS uses the backend, and the databases with it; Django itself checks each of its entries."""
    from .backend import RedisBackend

    try:
        used = any(isinstance(backend, RedisBackend) for backend in task_backends.all())
    except ImproperlyConfigured:
        return []  # Django says which backend can't be imported.
    return checks.check_sqlite() if used else [checks.missing_backend()]
