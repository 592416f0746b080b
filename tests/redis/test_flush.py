"""SCRIPT FLUSH at any moment: nothing fails, and nothing is lost or done twice."""

from __future__ import annotations

import threading

import pytest

from tests.broker.helpers import now
from tests.redis.jobs import add, fail, hold, note
from tests.rules import check_rules
from tests.waiting import wait_until


@pytest.fixture
def flushes(redis_server):
    """Flush the scripts again and again; give a list with an entry for each time."""
    done, over = [], threading.Event()

    def flush():
        with redis_server.client() as client:
            while not over.wait(0.002):
                client.script_flush()
                done.append(True)

    thread = threading.Thread(target=flush)
    thread.start()
    yield done
    over.set()
    thread.join()


def test_scripts_may_be_flushed_at_any_moment(flushes, start_worker, ended, noted, inspector):
    held = hold.enqueue()
    worker = start_worker("--processes", "2", "--threads", "2", lease=1)
    noted("begin a")
    results = [fail.enqueue() for _ in range(60)]
    results += add.enqueue_many([((number,), {}) for number in range(100)])

    records = ended(*results, timeout=30)

    started = now(inspector.broker)
    wait_until(lambda: now(inspector.broker) > started + 2000)  # two leases, renewed
    note("go")
    (last,) = ended(held)
    check_rules([*records, last])
    assert (last.state, last.attempts) == ("succeeded", 1)
    assert {(record.state, record.attempts) for record in records} == {("succeeded", 1), ("dead", 3)}
    assert len(flushes) > 100
    assert "trying again" not in worker.log
    assert worker.stop() == 0
