"""Records with a row in Django's database: a worker in Node.js can't reach it, and leaves them to Python."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.broker.helpers import claim, envelope, now, put, read, record
from tests.processes import ROOT
from tests.rules import check_rules
from tests.waiting import wait_until

LEASE = 1


@pytest.fixture
def database(tmp_path):
    """Give the file of a database with the tables, for the Python workers."""
    file = tmp_path / "rows.sqlite3"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TASKQ_TEST_DATABASE": str(file)}
    command = [sys.executable, "-m", "django", "migrate", "django_taskq", "--settings=tests.node.project"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return file


def statuses(database):
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT id, status FROM django_taskq_taskrecord"))


def with_rows(broker):
    """Enqueue what must not run without its row; return the ids."""
    document = envelope("border.work", args=[0])
    records = [
        record("default", envelope=document, record_alias="default"),
        record("default", envelope=envelope("border.work", args=[0], atomic="default"), record_alias="default"),
        record("default", envelope=envelope("border.work", args=[0], atomic="default")),
        # Who can't read it can't know what it needs.
        record("default", envelope=b'{"v":2}', record_alias="default"),
    ]
    return [one.id for one in broker.enqueue(records)]


def test_node_gives_back_what_has_a_row_however_often_and_never_buries_it(
    broker, start_node, start_python, database, ended, ledger
):
    ids = with_rows(broker)
    *runnable, unreadable = ids
    node = start_node(unknownTtlMs=0, lease=LEASE)
    for releases in (1, 2, 3):
        wait_until(lambda releases=releases: {read(broker, one).releases for one in ids} == {releases}, 10)
        for one in ids:
            found = read(broker, one)
            assert (found.state, found.attempts) == ("waiting", 0)
            assert found.due_at > now(broker)
            broker.promote(one)
    start_python(lease=LEASE, TASKQ_TEST_DATABASE=str(database))
    node.stop()

    wait_until(lambda: all(read(broker, one).attempts or broker.promote(one) != "DONE" for one in runnable))

    records = ended(*runnable)
    check_rules(records)
    assert {record.state for record in records} == {"succeeded"}
    assert ledger().ids("node") == set()
    assert statuses(database).items() >= dict.fromkeys(runnable[:2], "succeeded").items()
    assert read(broker, unreadable).state == "waiting"


def test_node_does_not_reap_what_has_a_row_and_it_stands_in_nobodys_way(
    broker, start_node, start_python, database, ended, ledger
):
    rows = with_rows(broker)[:3]
    plain = put(broker, 4, queue="default", envelope=envelope("border.work", args=[0]))
    held = claim(broker, 10, queues=["default"], child="gone.abcdefgh", lease_ms=300).leases
    assert len(held) == 8
    start_node(lease=LEASE)

    records = ended(*plain)

    assert {record.attempts for record in records} == {2}
    # Its reaper has looked at all of them, more than once.
    later = now(broker) + 2000 * LEASE
    wait_until(lambda: now(broker) > later)
    tokens = {lease.id: lease.token for lease in held}
    for found in map(read, [broker] * 3, rows):
        assert (found.state, found.attempts, found.token) == ("leased", 1, tokens[found.id])
    start_python(lease=LEASE, TASKQ_TEST_DATABASE=str(database))
    records = ended(*rows)
    check_rules(records)
    assert {(record.state, record.attempts) for record in records} == {("succeeded", 2)}
    assert {record.history[0].error.reason for record in records} == {"lease expired"}
    assert ledger().ids("node") == set(plain)
