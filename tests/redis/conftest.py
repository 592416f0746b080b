"""Worker processes for the tests, on the server of tests/settings.py."""

from __future__ import annotations

import os

import pytest
from django.test import override_settings

from django_taskq.broker.inspector import Inspector
from django_taskq.compat import task_backends
from tests.leaks import key_leaks
from tests.processes import ROOT, WorkerProcess
from tests.redis import jobs
from tests.redis.proxy import Proxy
from tests.settings import TASKS
from tests.waiting import wait_until

ENDED = {"succeeded", "dead", "cancelled"}
#: Options of a server that has all that it acknowledged after a restart.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Give a function that returns the lines that tasks noted."""
    monkeypatch.setenv(jobs.NOTES, str(tmp_path / "notes"))
    return jobs.notes


@pytest.fixture
def start_worker(redis_server, notes, tmp_path):
    """Give a function that starts a worker; those that are left are killed after the test."""
    started = []

    def start(*arguments, lease=3, **variables):
        environment = {**os.environ, "TASKQ_TEST_LEASE": str(lease), "PYTHONPATH": str(ROOT), **variables}
        if "--processes" not in arguments:
            arguments = ("--processes", "1", *arguments)
        log = tmp_path / f"worker-{len(started)}.log"
        started.append(WorkerProcess(arguments, environment, log))
        return started[-1]

    yield start
    for worker in started:
        worker.kill_group()


@pytest.fixture
def proxy(redis_server):
    """Give a proxy in front of the server, for a worker that is to have trouble with it."""
    proxy = Proxy(redis_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def own_server(request, new_server, monkeypatch):
    """Give a server of its own, durable unless the parameter says otherwise; tasks are enqueued and run there.

    Name it first: the other fixtures then use it.
    """
    own = new_server(*getattr(request, "param", DURABLE))
    monkeypatch.setenv("TASKQ_TEST_URL", own.unix_url)
    tasks = {"default": {**TASKS["default"], "OPTIONS": {"url": own.unix_url}}}
    with override_settings(TASKS=tasks):
        yield own
    if own.process is not None:
        with own.client() as client:
            assert not key_leaks(client)


@pytest.fixture
def inspector(redis_server):
    return Inspector(task_backends["default"].broker)


@pytest.fixture
def start_ready(start_worker, inspector):
    """Give a function that starts a worker of a name, and returns when all its children serve."""

    def start(name, *arguments, **variables):
        worker = start_worker("--name", name, *arguments, **variables)
        wait_until(lambda: is_ready(inspector, name), 30, f"{name} is ready")
        return worker

    return start


def is_ready(inspector, name):
    (found,) = [one for one in inspector.workers() if one["name"] == name] or [None]
    return found and found["phase"] == "serving" and int(found["ready"]) == int(found["children"]) > 0


@pytest.fixture
def ended(inspector):
    """Give a function that waits until tasks have ended and returns their records."""

    def wait_for(*results, timeout=30):
        ids = [result.id for result in results]

        def all_ended():
            records = [inspector.record(each) for each in ids]
            return records if all(record and record.state in ENDED for record in records) else None

        return wait_until(all_ended, timeout, f"{ids} ended")

    return wait_for


@pytest.fixture
def noted(notes):
    """Give a function that waits until lines are noted."""

    def wait_for(*lines, timeout=30):
        wait_until(lambda: set(lines) <= set(notes()), timeout, f"{lines} noted")

    return wait_for


@pytest.fixture
def works(ended):
    """Give a function that checks that tasks still run."""

    def check(timeout=30):
        assert [record.state for record in ended(jobs.add.enqueue(1), timeout=timeout)] == ["succeeded"]

    return check
