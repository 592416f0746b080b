"""`manage.py taskq doctor`: what it finds about Redis, workers, queues and rows, and how it says so."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.test import override_settings
from django.utils import timezone

from django_taskq import background, registry
from django_taskq.management.actions import doctor
from django_taskq.models import TaskRecord
from tests.broker.helpers import HOUR, MINUTE, put
from tests.servers import free_port

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.fixture
def broker(backend):
    return backend.broker


@pytest.fixture(autouse=True)
def _no_tasks(monkeypatch):
    """Let no task be declared that has rows of its own."""
    monkeypatch.setattr(registry, "_declared", {})


def run(*arguments):
    """Return what it prints, and the error that it ends with."""
    output = StringIO()
    try:
        call_command("taskq", "doctor", *arguments, stdout=output)
    except CommandError as error:
        return output.getvalue(), error
    return output.getvalue(), None


def found(subject):
    """Return the levels and texts of what it finds about a subject."""
    findings = json.loads(run("--json")[0])["findings"]
    return [(finding["level"], finding["text"]) for finding in findings if finding["subject"] == subject]


def advice(subject):
    (finding,) = [each for each in json.loads(run("--json")[0])["findings"] if each["subject"] == subject]
    return finding["advice"]


def open_row(record_id, alias="default", due_in=60, **columns):
    now = timezone.now()
    TaskRecord.objects.using(alias).create(
        id=record_id, backend="default", task="a.b", queue="q", status="waiting", envelope="{}", is_outbox=True,
        repair_at=now + timedelta(seconds=due_in), **{"enqueued_at": now, **columns},
    )  # fmt: skip


def remote_body(order_id): ...


def serve(broker, name="w", **fields):
    broker.heartbeat(name, {"phase": "serving", **fields}, MINUTE)


class TestLines:
    def test_each_finding_is_a_line_and_what_to_do_is_one_below(self, broker):
        output, error = run()
        assert error is None
        lines = output.splitlines()
        assert lines[0].split()[:2] == ["OK", "connection"]
        (workers,) = [index for index, line in enumerate(lines) if line.startswith("WARN  workers")]
        assert lines[workers + 1].strip() == "Start one: manage.py runtaskworker"

    def test_as_json_it_is_one_document(self, broker):
        document = json.loads(run("--json")[0])
        assert document["backend"] == "default"
        assert {tuple(finding) for finding in document["findings"]} == {("level", "subject", "text", "advice")}
        subjects = [finding["subject"] for finding in document["findings"]]
        assert subjects[0] == "connection"
        assert {"version", "eviction", "persistence", "scripts", "clock", "workers", "queues", "records"} <= {*subjects}

    def test_nothing_is_written(self, broker):
        run()
        assert broker.client.keys() == []


class TestConnection:
    @pytest.mark.parametrize("arguments", [[], ["--json"]])
    def test_without_redis_it_fails_and_shows_no_password(self, arguments):
        url = f"redis://user:topsecret@127.0.0.1:{free_port()}/0?password=topsecret"
        with override_settings(TASKS={"default": {**settings.TASKS["default"], "OPTIONS": {"url": url}}}):
            output, error = run(*arguments)
        assert error.returncode == 1
        assert "FAIL" in output
        assert "127.0.0.1" in output
        assert "secret" not in f"{output}{error}"

    def test_a_refused_password_is_no_reason_to_stop(self, redis_server):
        with redis_server.client() as client:
            client.acl_setuser("app", enabled=True, passwords=["+right"], keys=["*"], commands=["+@all"])
        url = redis_server.url.replace("://", "://app:topsecret@")
        with override_settings(TASKS={"default": {**settings.TASKS["default"], "OPTIONS": {"url": url}}}):
            output, error = run()
        with redis_server.client() as client:
            client.acl_deluser("app")
        assert error.returncode == 1
        assert "FAIL  connection" in output
        assert "OK    records" in output
        assert "secret" not in f"{output}{error}"


class TestWork:
    def test_workers_that_are_seen_are_named(self, broker):
        serve(broker, "one")
        serve(broker, "two")
        assert found("workers") == [("OK", "2 seen: one, two")]

    def test_of_many_workers_a_few_are_named(self, broker):
        for number in range(8):
            serve(broker, f"w{number}")
        assert found("workers") == [("OK", "8 seen: w0, w1, w2, w3, w4 and 3 more")]

    @pytest.mark.parametrize("delay_ms", [0, HOUR])
    def test_work_that_nobody_serves_is_said(self, broker, delay_ms):
        serve(broker, queues="a,b")
        put(broker, 2, "c", delay_ms=delay_ms)
        put(broker, 1, "a")
        assert found("queues") == [("WARN", "2 tasks wait where no worker serves: c")]
        assert "--queues" in advice("queues")

    def test_of_remote_tasks_the_program_that_works_on_them_is_missed(self, broker):
        background(name="receipts.render", queue_name="receipts", remote=True)(remote_body)
        serve(broker, queues="default")
        put(broker, 1, "receipts")
        assert found("queues") == [("WARN", "1 task waits where no worker serves: receipts")]
        assert "Start the program that works on them" in advice("queues")
        put(broker, 1, "mail")
        assert "Start a worker with --queues" in advice("queues")

    def test_a_worker_in_another_language_is_one(self, broker):
        serve(broker, "node-1", host="node-1", pid="7", started_at="1790000000000", queues="receipts", running="3")
        put(broker, 1, "receipts")
        assert found("workers") == [("OK", "1 seen: node-1")]
        assert found("queues") == [("OK", "1 task waits, all where a worker serves")]

    @pytest.mark.parametrize(
        ("served", "level"),
        [
            ({"queues": "c"}, "OK"),
            ({"queues": "a,c,b"}, "OK"),
            ({"queues": "cc"}, "WARN"),
            ({"queues": ""}, "OK"),
            ({"queues": "", "excluded": "c"}, "WARN"),
            ({"queues": "", "excluded": "cc,d"}, "OK"),
        ],
    )
    def test_a_worker_serves_what_it_says(self, broker, served, level):
        serve(broker, **served)
        put(broker, 1, "c")
        assert [each for each, _ in found("queues")] == [level]

    def test_a_queue_whose_name_holds_a_comma_is_served(self, broker):
        serve(broker, queues="x,a,b")
        put(broker, 1, "a,b")
        assert [level for level, _ in found("queues")] == ["OK"]


class TestRecords:
    def test_where_none_are_kept_no_database_is_asked(self, backend, django_assert_num_queries):
        with django_assert_num_queries(0):
            assert found("records") == [("OK", "none are kept in a database")]
        assert found("outbox") == []

    def test_each_database_that_has_rows_is_looked_at(self, with_options):
        with_options(records="outbox")
        background(outbox="other", name="elsewhere")(advice)
        open_row("A", due_in=-1, enqueued_at=timezone.now() - timedelta(minutes=5))
        open_row("B")
        assert found("records") == [("OK", "'default' has the table"), ("OK", "'other' has the table")]
        assert found("outbox") == [
            ("OK", "2 open in 'default', 1 of them due, the oldest since 5 min"),
            ("OK", "0 open in 'other', 0 of them due"),
        ]

    def test_tasks_are_imported_first(self, backend, monkeypatch):
        monkeypatch.setattr(doctor, "load_project", lambda: background(outbox="other", name="elsewhere")(advice))
        assert found("records") == [("OK", "'other' has the table")]

    def test_rows_that_no_worker_asks_about_are_said(self, with_options):
        with_options(records="outbox")
        open_row("A", due_in=-120)
        assert [level for level, _ in found("outbox")] == ["WARN"]
        assert "worker" in advice("outbox")

    def test_a_table_that_was_not_migrated_fails_with_the_command(self, with_options):
        with_options(records="finished")
        with connections["default"].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {TaskRecord._meta.db_table} RENAME TO elsewhere")
        ((level, text),) = found("records")
        assert (level, "'default'" in text) == ("FAIL", True)
        assert advice("records") == "Run manage.py migrate django_taskq --database default"
        assert run()[1].returncode == 1

    def test_a_table_of_an_older_release_fails_too(self, with_options):
        with_options(records="finished")
        with connections["default"].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {TaskRecord._meta.db_table} RENAME COLUMN delay_ms TO elsewhere")
        ((level, text),) = found("records")
        assert (level, "delay_ms" in text) == ("FAIL", True)

    def test_a_database_that_is_away_fails_and_the_others_are_looked_at(self, with_options, monkeypatch):
        def table_problem(alias):
            if alias == "default":
                raise DatabaseError("connection refused")

        with_options(records="finished")
        background(outbox="other", name="elsewhere")(advice)
        monkeypatch.setattr(doctor, "table_problem", table_problem)
        assert found("records") == [
            ("FAIL", "'default' can't be reached: connection refused"),
            ("OK", "'other' has the table"),
        ]

    def test_a_database_that_is_not_configured_fails(self, backend):
        background(outbox="nowhere", name="elsewhere")(advice)
        ((level, text),) = found("records")
        assert (level, "'nowhere'" in text) == ("FAIL", True)
