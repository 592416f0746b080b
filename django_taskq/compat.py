"""`django.tasks`, or the backport on Django 5.2: chosen here, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import django

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, base, signals, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TaskError, TaskResultStatus, task
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist, TaskResultMismatch
else:
    try:
        from django_tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, base, task_backends
    except ModuleNotFoundError as error:
        raise ImportError(
            "On Django 5.2, django_taskq needs the backport of django.tasks: pip install 'django-taskq-redis[django52]'"
        ) from error
    from django_tasks import checks as _checks  # noqa: F401  # so that they run without the app `django_tasks`, too
    from django_tasks import exceptions, signals
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import TaskError, TaskResultStatus, task
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

    # The backport up to 0.12 has names of its own for these two.
    InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
    InvalidTaskBackend = getattr(exceptions, "InvalidTaskBackend", None) or exceptions.InvalidTaskBackendError

if TYPE_CHECKING:
    # django-stubs makes these generic, Django itself doesn't. Pyright reads both; where there are no stubs, it
    # mentions the arguments and goes on without them.
    Task: TypeAlias = base.Task[..., Any]  # pyright: ignore[reportInvalidTypeArguments]
    TaskContext: TypeAlias = base.TaskContext[..., Any]  # pyright: ignore[reportInvalidTypeArguments]
    TaskResult: TypeAlias = base.TaskResult[..., Any]  # pyright: ignore[reportInvalidTypeArguments]
else:
    Task, TaskContext, TaskResult = base.Task, base.TaskContext, base.TaskResult

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_QUEUE_NAME",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "base",
    "signals",
    "task",
    "task_backends",
]
