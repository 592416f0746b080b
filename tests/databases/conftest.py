"""Each database with an empty table of task records, which the router sends them to, and workers that write there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.test import override_settings

from django_taskq import rows
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import Record, State
from django_taskq.compat import task_backends
from django_taskq.models import TaskRecord
from tests.databases.atomic import application, claim, leased, lose, run  # noqa: F401  # its fixtures
from tests.databases.engines import ENGINES, IMMEDIATE, ISOLATED, Engine
from tests.databases.routing import ALIAS, ToRecords
from tests.processes import ROOT, WorkerProcess
from tests.redis import jobs as shared_jobs
from tests.waiting import wait_until

ENDED = {State.SUCCEEDED, State.DEAD, State.CANCELLED}
NAMES = ("sqlite", *ENGINES)


def require(engine: type[Engine]) -> None:
    """Skip where an engine isn't installed; where CI runs nothing is skipped for want of it."""
    missing = engine.missing() or ("" if find_spec(engine.driver) else f"the Python package {engine.driver}")
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"{missing} isn't installed, and CI needs it")
    if missing:
        pytest.skip(f"{missing} isn't installed")
    if engine.driver == "pymysql":
        import pymysql

        pymysql.install_as_MySQLdb()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def running_engines() -> Iterator[dict[str, Engine]]:
    """Keep the servers that are running, by name."""
    running: dict[str, Engine] = {}
    yield running
    for engine in running.values():
        engine.close()


@pytest.fixture
def engine(running_engines: dict[str, Engine]) -> Callable[[str], Engine]:
    """Give a function that returns the running server of a name."""

    def running(name: str) -> Engine:
        require(ENGINES[name])
        if name not in running_engines:
            running_engines[name] = ENGINES[name]().start()
        return running_engines[name]

    return running


def configured(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of DATABASES with all its defaults."""
    return connections.configure_settings({DEFAULT_DB_ALIAS: {}, ALIAS: {**entry}})[ALIAS]


@pytest.fixture
def entry(request: pytest.FixtureRequest, engine: Callable[[str], Engine], tmp_path: Path) -> dict[str, Any]:
    """Give the entry of DATABASES for the database that the test asks for, SQLite if for none."""
    name = getattr(request, "param", "sqlite")
    if name in ("sqlite", "sqlite-immediate"):
        options = {} if name == "sqlite" else {"OPTIONS": IMMEDIATE}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "records.sqlite3"), **options}
    server, isolation = ISOLATED.get(name, (name, {}))
    return engine(server).settings(**({"OPTIONS": isolation} if isolation else {}))


@pytest.fixture
def database(entry: dict[str, Any], django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """Give the alias of a database where task records go and none is yet.

    The databases of the settings are made before they may be used: what had connected to one in memory until then would
    stay alone in it.
    """
    connections.settings[ALIAS] = configured(entry)
    with django_db_blocker.unblock(), override_settings(DATABASE_ROUTERS=[ToRecords()]):
        try:
            if TaskRecord._meta.db_table not in connections[ALIAS].introspection.table_names():
                call_command("migrate", "django_taskq", database=ALIAS, verbosity=0)
            TaskRecord.objects.all().delete()
            yield ALIAS
        finally:
            connections[ALIAS].close()
            del connections[ALIAS]
            del connections.settings[ALIAS]


@pytest.fixture
def away(database):
    """Give a function that takes the table away, and one that brings it back."""

    def rename(old, new):
        with connections[database].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    table = TaskRecord._meta.db_table
    return lambda: rename(table, "elsewhere"), lambda: rename("elsewhere", table)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Give a function that returns the lines that tasks noted."""
    monkeypatch.setenv(shared_jobs.NOTES, str(tmp_path / "notes"))
    return shared_jobs.notes


@pytest.fixture
def noted(notes):
    """Give a function that waits until lines are noted."""

    def wait_for(*lines, timeout=20):
        wait_until(lambda: set(lines) <= set(notes()), timeout, f"{lines} noted")

    return wait_for


@pytest.fixture
def start_worker(redis_server, database, entry, notes, tmp_path):
    """Give a function that starts a worker which keeps rows; those that are left are killed after the test."""
    started = []

    def start(*arguments, database=entry, **given):
        described = json.dumps({"database": database, **given})
        environment = {**os.environ, "TASKQ_TEST_RECORDS": described, "PYTHONPATH": str(ROOT)}
        if "--processes" not in arguments:
            arguments = ("--processes", "1", *arguments)
        log = tmp_path / f"worker-{len(started)}.log"
        started.append(WorkerProcess(arguments, environment, log, settings="tests.databases.project"))
        return started[-1]

    yield start
    for worker in started:
        worker.kill_group()


@pytest.fixture
def broker(redis_server):
    return task_backends["default"].broker


@pytest.fixture
def inspector(broker):
    return Inspector(broker)


@pytest.fixture
def ended(inspector):
    """Give a function that waits until tasks have ended and returns their records."""

    def wait_for(*results, timeout=20):
        ids = [result.id for result in results]

        def all_ended():
            records = inspector.records(ids)
            return records if all(record and record.state in ENDED for record in records) else None

        return wait_until(all_ended, timeout, f"{ids} ended")

    return wait_for


def agrees(record: Record) -> bool:
    """Tell whether the row of a record says what Redis holds; fail where it says something else."""
    row = TaskRecord.objects.get(pk=record.id)
    said = rows.to_record(row)
    for name in ("state", "attempts", "token", "result", "worker_ids", "envelope_bytes"):
        assert getattr(said, name) == getattr(record, name), name
    # A row that was there first tells when the task was enqueued, and not when it reached Redis.
    enqueued_at = said.head.enqueued_at if row.is_outbox else record.head.enqueued_at
    assert said.head == record.head._replace(key_ttl_ms=0, record_alias=None, enqueued_at=enqueued_at)
    errors = [attempt.error for attempt in record.history]
    assert [attempt.error for attempt in said.history] == errors
    return True


@contextmanager
def nothing_commits_by_itself() -> Iterator[None]:
    """Let the connection to the database under test leave it to its user to commit."""
    connection = connections[ALIAS]
    connection.close()
    connection.settings_dict["AUTOCOMMIT"] = False
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["AUTOCOMMIT"] = True


def on_each(*names: str) -> Any:
    """Run a test on each of these databases, on all if none is named."""
    return pytest.mark.parametrize("entry", names or NAMES, indirect=True)
