"""A task queue on Redis for Django.

The names below are imported on first use: importing `django_taskq.broker` loads no Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker.exceptions import EnqueueError
    from .context import BackgroundContext
    from .task import BackgroundTask, background
    from .worker.exceptions import Bury, Retry, TaskTimeout

__all__ = ["background", "BackgroundTask", "BackgroundContext", "Retry", "Bury", "TaskTimeout", "EnqueueError"]

_HOMES = {
    "background": "task",
    "BackgroundTask": "task",
    "BackgroundContext": "context",
    "Retry": "worker.exceptions",
    "Bury": "worker.exceptions",
    "TaskTimeout": "worker.exceptions",
    "EnqueueError": "broker.exceptions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
