"""C74 on SQLite: database connections of many threads over many tasks. Killed sessions: tests/databases."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.casebook import jobs
from tests.rules import check_rules
from tests.waiting import wait_until

THREADS = 8


@pytest.fixture
def files(tmp_path):
    """Give the files of the two databases."""
    return tmp_path / "default.sqlite3", tmp_path / "other.sqlite3"


@pytest.fixture
def start(start_worker, files):
    """Give a function that starts a worker on these databases."""
    variables = {"TASKQ_TEST_DATABASE": str(files[0]), "TASKQ_TEST_OTHER": str(files[1])}

    def start(*arguments, age="0"):
        return start_worker("--threads", str(THREADS), *arguments, TASKQ_TEST_AGE=age, **variables)

    return start


def opened(pid, files):
    """Count the connections that a process has to the databases."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            found.append(os.readlink(entry))
    return sum(name in map(str, files) for name in found)


@pytest.mark.parametrize("age", ["null", "0", "60"])
def test_c74_connections_do_not_grow_in_number_over_many_tasks(age, start, ended, files):
    worker = start(age=age)
    for _ in range(2):
        tasks = jobs.query.enqueue_many([((), {})] * 200) + jobs.aquery.enqueue_many([((), {})] * 50)
        records = ended(*tasks, timeout=30)
        check_rules(records)
        assert {record.result for record in records} == {True}
    (child,) = worker.children()

    # Those of the threads, of the one that waits for work in turn with them, and of the one that coroutines share.
    most = 0 if age == "0" else 2 * (THREADS + 2)
    wait_until(lambda: opened(child, files) <= most, what="few connections")

    assert worker.stop() == 0


@pytest.mark.parametrize("age", ["null", "0"])
def test_c74_a_transaction_that_a_task_left_open_is_not_the_next_one_s(age, start, ended, files):
    with closing(sqlite3.connect(files[0])) as database:
        database.execute("CREATE TABLE counted (number INTEGER)")
    worker = start("--threads", "1", age=age)

    for how in ("no autocommit", "open block", "failed block"):
        ended(jobs.leave_transaction.enqueue(how))
        (after, counted) = ended(jobs.query.enqueue(), jobs.count.enqueue())
        assert (how, after.result, counted.result) == (how, True, 0)

    assert worker.log.count("left a transaction") == 1
    assert worker.stop() == 0
