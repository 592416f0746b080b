"""The outbox in real databases, with real workers, and with processes that die at the wrong moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connections
from django.db.transaction import atomic
from django.test import override_settings
from django.utils import timezone

from django_taskq import repair
from django_taskq.broker.broker import Broker
from django_taskq.compat import task_backends
from django_taskq.models import TaskRecord
from django_taskq.outbox import backlog
from django_taskq.repair import Pass
from tests.app.outboxes import duty, make_due, no_push
from tests.app.test_commit import rolled_back
from tests.processes import ROOT
from tests.waiting import wait_until

from . import jobs
from .conftest import nothing_commits_by_itself, on_each
from .routing import ALIAS

OUTBOX = {"records": "outbox"}


@pytest.fixture
def backend(database, redis_server):
    """Give the backend of this process, whose tasks have an outbox in the database under test."""
    entry = settings.TASKS["default"]
    with override_settings(TASKS={"default": {**entry, "OPTIONS": {**entry["OPTIONS"], **OUTBOX}}}):
        duty(task_backends["default"]).work()
        yield task_backends["default"]


def statuses():
    return sorted(TaskRecord.objects.values_list("status", flat=True))


def in_another_process(entry, code):
    """Run Python code with the settings of the workers; return its exit code."""
    described = json.dumps({"database": entry, "options": OUTBOX})
    environment = {**os.environ, "TASKQ_TEST_RECORDS": described, "DJANGO_SETTINGS_MODULE": "tests.databases.project"}
    return subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, timeout=60).returncode


DIES = """
import os, signal, django
django.setup()
from django.db import transaction
from tests.databases import jobs
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
with transaction.atomic(using="records"):
    {before}
    jobs.count_up.enqueue("a")
    {after}
"""


@on_each()
def test_a_row_is_committed_and_rolled_back_with_the_transaction(backend, redis_client):
    with rolled_back(ALIAS):
        jobs.give.enqueue_many([((number,), {}) for number in range(3)])
        assert len(statuses()) == 3
    assert (statuses(), redis_client.keys("*task:*")) == ([], [])

    with atomic(ALIAS):
        texts = ["naïve 🚀 ✓", "a\0b", "é" * 400_000, "quotes '\"\\ %s"]
        results = jobs.give.enqueue_many([((text,), {}) for text in texts])
        assert redis_client.keys("*task:*") == []

    assert len(redis_client.keys("*task:*")) == 4
    assert [TaskRecord.objects.get(pk=result.id).args for result in results] == [[text] for text in texts]


@on_each()
def test_what_is_pushed_from_its_row_is_what_was_enqueued(backend, inspector, redis_client):
    made = jobs.give.using(priority=-3, queue_name="mail", idempotency_key="ü")
    pushed = made.enqueue("naïve 🚀 \0")
    record = inspector.record(pushed.id)
    make_due(ALIAS, -timedelta(minutes=40))
    redis_client.flushall()

    duty(backend).work()

    again = inspector.record(pushed.id)
    assert (again.envelope_bytes, again.head.priority, again.head.queue) == (record.envelope_bytes, -3, "mail")
    assert (again.head.key, again.head.key_ttl_ms, again.head.record_alias) == ("ü", record.head.key_ttl_ms, ALIAS)


@on_each()
def test_workers_that_repair_at_once_push_each_task_once(backend, database, monkeypatch):
    monkeypatch.setattr(repair, "PAGE", 50)
    monkeypatch.setattr(repair, "ROUND", 20)
    asked, answers = [], []
    states, enqueue = Broker.states, Broker.enqueue
    monkeypatch.setattr(Broker, "states", lambda self, ids: asked.extend(ids) or states(self, ids))

    def push(self, records):
        found = enqueue(self, records)
        answers.extend(one.word for one in found)
        return found

    monkeypatch.setattr(Broker, "enqueue", push)
    with no_push(backend):
        jobs.give.enqueue_many([((number,), {}) for number in range(400)])
    make_due(database)
    barrier = threading.Barrier(3)

    def work():
        try:
            barrier.wait(10)
            duty(backend).work()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    wait_until(lambda: duty(backend).work() > repair.PAUSE, 20)  # SQLite may have said that it is locked
    assert answers.count("STORED") == 400
    assert set(answers) <= {"STORED", "EXISTS"}
    if connections[database].features.has_select_for_update_skip_locked:
        assert len(asked) == 400
    assert TaskRecord.objects.filter(repair_at__gt=timezone.now() + timedelta(minutes=40)).count() == 400


@on_each()
def test_what_is_due_is_found_by_the_index(backend, database):
    now = timezone.now()
    rows = [
        TaskRecord(
            id=f"{number:026}",
            backend="default",
            task="t",
            queue="q",
            status="waiting" if number % 100 == 0 else "succeeded",
            envelope="{}",
            enqueued_at=now,
            is_outbox=True,
            repair_at=now + timedelta(seconds=number) if number % 100 == 0 else None,
        )
        for number in range(20_000)
    ]
    TaskRecord.objects.bulk_create(rows, batch_size=1000)
    connection = connections[database]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE django_taskq_taskrecord" if connection.vendor == "mysql" else "ANALYZE")
    queries = []
    with connection.execute_wrapper(
        lambda execute, sql, *given: queries.append((sql, given[0])) or execute(sql, *given)
    ):
        one = Pass(database, "default", type(backend), backend.conf, backend.broker)
        one._since = now
        one._take()
    looks = [(sql, given) for sql, given in queries if sql.startswith("SELECT")]

    assert len(looks) == 3
    for sql, given in looks:
        with connection.cursor() as cursor:
            cursor.execute(f"{'EXPLAIN QUERY PLAN' if connection.vendor == 'sqlite' else 'EXPLAIN'} {sql}", given)
            assert "taskq_backend_repair" in str(cursor.fetchall())
    assert backlog("default", database).open == 200


@on_each()
def test_repair_notes_what_it_asked_where_nothing_commits_by_itself(backend, database):
    with no_push(backend):
        result = jobs.give.enqueue(1)
    make_due(database)
    with nothing_commits_by_itself():
        duty(backend).work()
    assert backend.broker.states([result.id]) == ["waiting"]
    assert TaskRecord.objects.get().repair_at > timezone.now() + timedelta(minutes=5)


@on_each("postgresql", "mariadb")
def test_repair_outlives_the_connections_of_the_database(backend, database, engine, entry, caplog):
    server = engine(connections[database].vendor.replace("mysql", "mariadb"))
    result = jobs.give.enqueue(1)
    work = duty(backend).work
    work()
    make_due(database)
    assert server.kill_sessions() > 0

    assert work() < 1
    wait_until(lambda: work() > 1)

    assert backend.broker.states([result.id]) == ["waiting"]
    assert "answers again" in caplog.text


@pytest.mark.slow
class TestWorkers:
    @on_each()
    def test_a_row_tells_how_its_task_ended(self, backend, start_worker, ended):
        results = [jobs.give.enqueue({"é": 1}), jobs.agive.enqueue(2), jobs.fail.enqueue("no luck")]
        start_worker(options=OUTBOX)
        ended(*results)

        wait_until(lambda: statuses() == ["dead", "succeeded", "succeeded"])
        rows = [TaskRecord.objects.get(pk=result.id) for result in results]
        assert [row.result for row in rows] == ['{"é":1}', "2", ""]
        assert "no luck" in rows[2].history
        assert {(row.repair_at, row.is_outbox) for row in rows} == {(None, True)}

    @on_each()
    def test_a_process_that_dies_between_the_commit_and_the_push_has_enqueued(
        self, backend, entry, start_worker, noted, notes, redis_client
    ):
        hook = "transaction.on_commit(die, using='records')"
        assert in_another_process(entry, DIES.format(before="die()", after="pass")) == -signal.SIGKILL
        assert in_another_process(entry, DIES.format(before="pass", after="die()")) == -signal.SIGKILL
        assert statuses() == []
        assert in_another_process(entry, DIES.format(before=hook, after="pass")) == -signal.SIGKILL
        assert (statuses(), redis_client.keys("*task:*")) == (["waiting"], [])

        make_due(ALIAS)
        start_worker(options=OUTBOX)

        noted("end a")
        wait_until(lambda: statuses() == ["succeeded"])
        assert notes() == ["begin a", "end a"]

    @on_each("postgresql")
    def test_all_that_redis_forgot_is_run_soon(self, backend, start_worker, noted, notes, redis_client):
        start_worker(options=OUTBOX)
        jobs.count_up.enqueue("before")
        noted("end before")
        with no_push(backend):
            jobs.count_up.enqueue_many([((str(number),), {}) for number in range(30)])
        TaskRecord.objects.filter(status="waiting").update(repair_at=timezone.now() + timedelta(minutes=40))

        redis_client.flushall()

        noted(*(f"end {number}" for number in range(30)), timeout=30)
        wait_until(lambda: set(statuses()) == {"succeeded"})
        assert len(notes()) == 2 * 31
