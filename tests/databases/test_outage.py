"""A database that is away for a while: no task runs again for that, and none is settled without its row."""

from __future__ import annotations

import time

import pytest
from django.db import connections

from django_taskq.models import TaskRecord
from tests.waiting import wait_until

from . import jobs
from .conftest import agrees, on_each
from .routing import ALIAS
from .troubles import may_only_be_read

pytestmark = pytest.mark.slow


@pytest.fixture
def server(request, engine):
    """Give the server of the test's database; it runs again afterwards."""
    server = engine(request.node.callspec.params["entry"])
    yield server
    if server.process is None:
        server.start()


def stop(server):
    connections[ALIAS].close()
    server.stop()


@on_each("postgresql", "mariadb")
def test_rows_are_written_when_the_database_is_back(server, database, start_worker, inspector, ended, noted, notes):
    worker = start_worker(options={"lease_seconds": 1})
    warm = jobs.give.enqueue(1)
    ended(warm)
    tasks = [jobs.count_up.enqueue(f"t{n}", until="go") for n in range(3)]
    noted(*[f"begin t{n}" for n in range(3)])
    stop(server)
    jobs.note("go")
    noted(*[f"end t{n}" for n in range(3)])
    wait_until(lambda: "The database takes no rows" in worker.log)
    # Longer than a lease: they are held, and nothing else is begun.
    waiting = jobs.count_up.enqueue("later")
    until = time.monotonic() + 2
    wait_until(lambda: time.monotonic() > until)
    assert {record.state for record in inspector.records([task.id for task in tasks])} == {"leased"}
    assert inspector.record(waiting.id).state == "waiting"
    server.start()
    records = ended(*tasks, waiting)
    assert all(agrees(record) for record in records)
    assert {record.attempts for record in records} == {1}
    assert sorted(notes()) == sorted(
        ["go", *(f"{word} {name}" for word in ("begin", "end") for name in ("t0", "t1", "t2", "later"))]
    )
    assert "The database answers again" in worker.log
    assert worker.stop() == 0


@on_each("postgresql")
def test_a_result_that_cannot_be_saved_in_time_is_buried_with_it(server, database, start_worker, ended, noted, notes):
    worker = start_worker(patience=1)
    ended(jobs.give.enqueue(1))
    task = jobs.count_up.enqueue("lost", until="go")
    noted("begin lost")
    stop(server)
    jobs.note("go")
    (record,) = ended(task)
    attempt = record.history[-1]
    assert (record.state, record.attempts) == ("dead", 1)
    assert (attempt.error.reason, attempt.result) == ("result not saved", "lost")
    server.start()
    (again,) = ended(jobs.give.enqueue(2))
    assert agrees(again)
    assert not TaskRecord.objects.filter(pk=task.id).exists()
    assert worker.stop() == 0


@on_each("postgresql", "mariadb")
def test_a_database_that_may_only_be_read_is_waited_for(server, database, start_worker, inspector, ended):
    worker = start_worker()
    ended(jobs.give.enqueue(0))
    with may_only_be_read(server):
        task = jobs.give.enqueue(1)
        wait_until(lambda: "The database takes no rows" in worker.log)
        assert inspector.record(task.id).state == "leased"
    (record,) = ended(task)
    assert agrees(record)
    assert record.attempts == 1


@on_each("sqlite")
def test_a_locked_sqlite_database_is_waited_for(database, start_worker, ended, entry):
    worker = start_worker(database={**entry, "OPTIONS": {"timeout": 0.1}})
    ended(jobs.give.enqueue(0))
    with connections[database].cursor() as cursor:
        cursor.execute("BEGIN EXCLUSIVE")
        task = jobs.give.enqueue(1)
        wait_until(lambda: "database is locked" in worker.log)
        cursor.execute("COMMIT")
    (record,) = ended(task)
    assert agrees(record)
    assert record.attempts == 1
