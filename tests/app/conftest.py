"""The backend of tests/settings.py on a running server, and what it stored there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_taskq import outbox
from django_taskq.backend import RedisBackend
from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from django_taskq.compat import signals, task_backends
from tests.app.outboxes import duty

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def backend(redis_server: Any) -> RedisBackend:
    """Give the backend `default`, whose server is empty."""
    return task_backends["default"]


@pytest.fixture
def inspector(backend: RedisBackend) -> Inspector:
    """Give the read side of the backend's queue."""
    return Inspector(backend.broker)


@pytest.fixture
def with_options(redis_server: Any) -> Iterator[Callable[..., RedisBackend]]:
    """Give a function that sets options of the backend for the rest of the test."""
    overrides = []

    def set_options(**options: Any) -> RedisBackend:
        entry = settings.TASKS["default"]
        changed = {**entry, "OPTIONS": {**entry["OPTIONS"], **options}}
        override = override_settings(TASKS={"default": changed})
        override.enable()
        overrides.append(override)
        return task_backends["default"]

    yield set_options
    for override in reversed(overrides):
        override.disable()


@pytest.fixture
def sent() -> Iterator[list[Any]]:
    """Collect the results for which `task_enqueued` is sent."""
    results = []

    def receive(sender: Any, task_result: Any, **kwargs: Any) -> None:
        results.append((sender, task_result, task_result.enqueued_at))

    signals.task_enqueued.connect(receive)
    yield results
    signals.task_enqueued.disconnect(receive)


@pytest.fixture
def manage(tmp_path, redis_url):
    """Give a function that runs the manage.py of testproject/, with data and a Redis of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SHOP_DATA": str(tmp_path), "TASKQ_REDIS_URL": redis_url}
    environment.pop("DJANGO_SETTINGS_MODULE", None)

    def run(*arguments):
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT / "testproject", env=environment, capture_output=True, text=True)

    return run


@pytest.fixture
def outbox_backend(with_options: Callable[..., RedisBackend]) -> RedisBackend:
    """Give the backend whose tasks have an outbox; all its rows have been asked about, and no push has failed yet."""
    backend = with_options(records="outbox")
    duty(backend).work()
    outbox._failing.clear()
    return backend


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the ids that Redis is asked about."""
    ids: list[str] = []
    states = Broker.states

    def ask(self: Broker, page: Sequence[str]) -> list[str]:
        ids.extend(page)
        return states(self, page)

    monkeypatch.setattr(Broker, "states", ask)
    return ids
