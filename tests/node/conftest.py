"""Workers of both languages on the server of tests/settings.py, and the ledger of their runs."""

from __future__ import annotations

import json
import os

import pytest

from django_taskq.broker.inspector import Inspector
from django_taskq.compat import task_backends
from tests.node import build
from tests.node.ledger import DATABASE, PYTHON, Ledger
from tests.node.processes import Hand, NodeProcess
from tests.processes import ROOT, WorkerProcess
from tests.redis.conftest import ENDED, is_ready
from tests.waiting import wait_until


@pytest.fixture(scope="session", autouse=True)
def _client():
    build.require()


@pytest.fixture
def inspector(redis_server):
    return Inspector(task_backends["default"].broker)


@pytest.fixture
def broker(inspector):
    return inspector.broker


@pytest.fixture
def ledger_client(redis_server):
    with redis_server.client(db=DATABASE) as client:
        yield client


@pytest.fixture
def ledger(ledger_client):
    """Give a function that reads the ledger."""
    return lambda: Ledger.read(ledger_client)


@pytest.fixture
def begun(ledger):
    """Give a function that waits until tasks run, and returns their last runs."""

    def wait_for(*ids, timeout=30):
        def all_begun():
            runs = ledger().runs
            return all(task_id in runs for task_id in ids) and [runs[task_id][-1] for task_id in ids]

        return wait_until(all_begun, timeout, f"{ids} begun")

    return wait_for


@pytest.fixture
def open_gate(ledger_client):
    """Give a function that lets the tasks at a gate go on."""
    return lambda gate: ledger_client.set(f"gate:{gate}", 1)


@pytest.fixture
def close_gate(ledger_client):
    """Give a function that stops the tasks that come to a gate from now on."""
    return lambda gate: ledger_client.delete(f"gate:{gate}")


@pytest.fixture
def start_node(redis_server, inspector, tmp_path):
    """Give a function that starts a worker in Node.js, and returns when it serves."""
    started = []

    def start(name="node", *, lease=3, ready=True, **settings):
        settings = {"url": redis_server.url, "name": name, "leaseMs": int(lease * 1000), "concurrency": 4, **settings}
        started.append(NodeProcess("worker.mjs", settings, tmp_path / f"{name}-{len(started)}.log"))
        worker = started[-1]
        if ready:
            wait_until(lambda: is_ready(inspector, name) or not worker.is_alive, 30, f"{name} is ready")
            assert worker.is_alive, worker.log
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def start_python(redis_server, inspector, tmp_path):
    """Give a function that starts a Python worker, and returns when it serves."""
    started = []

    def start(name="python", *arguments, lease=3, ready=True, options=(), **variables):
        options = json.dumps({"lease_seconds": lease, **dict(options)})
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TASKQ_TEST_OPTIONS": options, **variables}
        # One that serves whatever there is looks for new queues now and then only.
        for option, value in (("--processes", "1"), ("-q", "default")):
            if option not in arguments:
                arguments = (option, value, *arguments)
        log = tmp_path / f"{name}-{len(started)}.log"
        started.append(WorkerProcess(("--name", name, *arguments), environment, log, settings="tests.node.project"))
        if ready:
            wait_until(lambda: is_ready(inspector, name), 30, f"{name} is ready")
        return started[-1]

    yield start
    for worker in started:
        worker.kill_group()


@pytest.fixture
def start_single(start_python, start_node):
    """Give a function that starts a worker in a language, which runs one task after the other."""

    def start(language, **settings):
        if language == PYTHON:
            return start_python("python", "--threads", "1", **settings)
        return start_node(concurrency=1, **settings)

    return start


@pytest.fixture
def start_hand(redis_server, tmp_path):
    """Give a function that starts a producer in Node.js."""
    started = []

    def start(**options):
        log = tmp_path / f"hand-{len(started)}.log"
        started.append(Hand({"url": redis_server.url, "options": options}, log))
        return started[-1]

    yield start
    for hand in started:
        hand.kill()


@pytest.fixture
def hand(start_hand):
    """Give a producer and reader in Node.js."""
    return start_hand()


@pytest.fixture
def ended(inspector):
    """Give a function that waits until tasks have ended and returns their records, in the order of their ids."""

    def wait_for(*ids, timeout=30):
        def all_ended():
            records = inspector.records(ids)
            return all(record and record.state in ENDED for record in records) and records

        return wait_until(all_ended, timeout, f"{len(ids)} tasks ended")

    return wait_for
