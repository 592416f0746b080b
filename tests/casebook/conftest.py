"""Worker processes, and what may come between them and Redis."""

from __future__ import annotations

import pytest
from django.test import override_settings

from tests.leaks import key_leaks
from tests.redis.conftest import ended, inspector, noted, notes, start_ready, start_worker, works  # noqa: F401  # fixtures
from tests.redis.proxy import Proxy
from tests.settings import TASKS


@pytest.fixture
def proxy(redis_server):
    """Give a proxy in front of the server, for a worker that is to have trouble with it."""
    proxy = Proxy(redis_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def own_server(new_server, monkeypatch):
    """Give a server of its own that keeps its data over a restart; tasks are enqueued and run there."""
    own = new_server("--appendonly", "yes", "--appendfsync", "always")
    monkeypatch.setenv("TASKQ_TEST_URL", own.unix_url)
    tasks = {"default": {**TASKS["default"], "OPTIONS": {"url": own.unix_url}}}
    with override_settings(TASKS=tasks):
        yield own
    with own.client() as client:
        assert not key_leaks(client)
