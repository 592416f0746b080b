"""Each database with an empty table of task records, which the router sends them to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.test import override_settings

from django_taskq.models import TaskRecord

from .engines import ENGINES, Engine

NAMES = ("sqlite", *ENGINES)
#: The alias of the database under test.
ALIAS = "records"


class ToRecords:
    """A router that sends task records to one database, and nothing else."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_read(self, model: type, **hints: Any) -> str | None:
        return self.alias if model is TaskRecord else None

    db_for_write = db_for_read


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
    if name == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "records.sqlite3")}
    return engine(name).settings()


@pytest.fixture
def database(entry: dict[str, Any], django_db_blocker: Any) -> Iterator[str]:
    """Give the alias of a database where task records go and none is yet."""
    connections.settings[ALIAS] = configured(entry)
    with django_db_blocker.unblock(), override_settings(DATABASE_ROUTERS=[ToRecords(ALIAS)]):
        try:
            if TaskRecord._meta.db_table not in connections[ALIAS].introspection.table_names():
                call_command("migrate", "django_taskq", database=ALIAS, verbosity=0)
            TaskRecord.objects.all().delete()
            yield ALIAS
        finally:
            connections[ALIAS].close()
            del connections[ALIAS]
            del connections.settings[ALIAS]


def on_each(*names: str) -> Any:
    """Run a test on each of these databases, on all if none is named."""
    return pytest.mark.parametrize("entry", names or NAMES, indirect=True)
