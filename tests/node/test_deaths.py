"""Workers of one language are killed, told to stop or frozen, and those of the other take over."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from tests.node import tasks
from tests.node.ledger import NODE, PYTHON
from tests.processes import WorkerProcess, is_alive
from tests.rules import check_rules
from tests.waiting import wait_until

LEASE = 1


@pytest.fixture
def start_both(start_python, start_node):
    """Give a function that starts a worker in a language."""

    def start(language, name=None, **settings):
        if language == PYTHON:
            return start_python(name or language, "--threads", "4", lease=LEASE, **settings)
        return start_node(name or language, lease=LEASE, concurrency=4, **settings)

    return start


def processes(worker):
    """Return the ids of a worker's process, and of those that run its tasks where these are others."""
    return [worker.pid, *(worker.children() if isinstance(worker, WorkerProcess) else [])]


def kill(worker):
    pids = processes(worker)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    worker.wait()
    wait_until(lambda: not any(map(is_alive, pids)))


def enqueue(hand, name, count, *args):
    """Enqueue as many tasks in Node.js as in Python; return their ids."""
    calls = [{"name": f"border.{name}", "args": str(list(args)).replace("'", '"')}] * (count // 2)
    there = [record_id for record_id, word in hand.ask("many", calls=calls)]
    return there + [result.id for result in getattr(tasks, name).enqueue_many([(args, {})] * (count - len(there)))]


BOTH_WAYS = pytest.mark.parametrize(("killed", "other"), [(NODE, PYTHON), (PYTHON, NODE)])


@BOTH_WAYS
def test_what_a_killed_worker_held_is_ended_by_the_other_language(
    start_both, hand, begun, ended, open_gate, ledger, killed, other
):
    held = enqueue(hand, "hold", 4, "go")
    worker = start_both(killed)
    begun(*held)
    waiting = enqueue(hand, "work", 20, 1)
    start_both(other)

    kill(worker)

    open_gate("go")
    records = ended(*held, *waiting)
    book = ledger()
    book.check(LEASE * 1000)
    check_rules(records)
    assert {record.state for record in records} == {"succeeded"}
    assert {record.attempts for record in records[:4]} == {2}
    assert {record.attempts for record in records[4:]} == {1}
    assert {record.history[0].error.reason for record in records[:4]} == {"lease expired"}
    for task_id in held:
        assert [(run.language, run.attempt, run.end) for run in book.runs[task_id]] == [
            (killed, 1, ""),
            (other, 2, "done"),
        ]
    assert [record.result for record in records[:4]] == [{"by": other, "attempt": 2}] * 4


@pytest.mark.slow
@BOTH_WAYS
def test_a_worker_killed_in_the_middle_loses_nothing(
    start_both, hand, inspector, ended, ledger, ledger_client, killed, other
):
    ids = enqueue(hand, "step", 300, 10)
    worker = start_both(killed)
    wait_until(lambda: ledger_client.xlen("ledger") > 100)

    kill(worker)

    done_before = {record.id for record in inspector.records(ids) if record.state == "succeeded"}
    start_both(other)
    records = ended(*ids)
    book = ledger()
    book.check(LEASE * 1000)
    check_rules(records)
    assert {record.state for record in records} == {"succeeded"}
    struck = [record for record in records if record.attempts > 1]
    print(f"{killed} was killed after {len(done_before)} of {len(ids)} tasks, and held {len(struck)}")
    assert 0 < len(done_before) < len(ids)
    assert {(record.attempts, record.history[0].error.reason) for record in struck} == {(2, "lease expired")}
    for record in records:
        last = {attempt.child.partition(".")[0] for attempt in record.history[-1:]}
        assert last == {killed if record.id in done_before else other}
        # Who was killed between its claim and its first word noted nothing.
        noted, tokens = [run.token for run in book.runs[record.id]], [one.token for one in record.history]
        assert noted == tokens[-len(noted) :]


@BOTH_WAYS
def test_a_worker_that_is_told_to_stop_gives_its_attempts_back(
    start_both, start_python, start_node, hand, begun, ended, open_gate, inspector, ledger, killed, other
):
    held = enqueue(hand, "hold", 4, "go")
    worker = start_node(lease=30, shutdownMs=200) if killed == NODE else start_python(
        "python", "--threads", "4", "--shutdown-timeout", "0.2", lease=30
    )  # fmt: skip
    begun(*held)

    worker.stop()

    records = inspector.records(held)
    assert {(record.state, record.attempts) for record in records} == {("waiting", 0)}
    assert {record.history for record in records} == {()}
    open_gate("go")
    start_both(other)
    records = ended(*held)
    check_rules(records)
    assert {(record.state, record.attempts) for record in records} == {("succeeded", 1)}
    assert [run.language for run in ledger().order] == [killed] * 4 + [other] * 4


@BOTH_WAYS
def test_a_worker_that_stops_with_nothing_to_do_ends_at_once_with_code_0(start_both, killed, other):
    worker = start_both(killed)
    assert worker.stop(5) == 0


@BOTH_WAYS
def test_a_worker_that_froze_past_its_lease_changes_nothing_when_it_goes_on(
    start_both, hand, begun, ended, open_gate, inspector, ledger, killed, other
):
    held = enqueue(hand, "hold", 4, "go")
    worker = start_both(killed)
    first = begun(*held)
    frozen = freeze(worker)
    start_both(other)
    wait_until(lambda: len(ledger().order) == 8, 10, "the second attempts")
    before = inspector.records(held)

    open_gate("go 1")
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)

    wait_until(lambda: all(ledger().runs[run.id][0].end == "done" for run in first), 10, "the late ends")
    # The hands of the other are full. With its own free again, what it had to say is said.
    (record,) = ended(*enqueue(hand, "work", 1, 1))
    assert record.result == {"by": killed, "attempt": 1}
    after = inspector.records(held)
    assert [standing(record) for record in after] == [standing(record) for record in before]
    open_gate("go")
    records = ended(*held)
    check_rules(records)
    assert [(record.token, record.result) for record in records] == [
        (record.token, {"by": other, "attempt": 2}) for record in before
    ]
    assert [ledger().runs[run.id][0].token for run in first] == [record.history[0].token for record in records]


def standing(record):
    """Return a record without the end of its lease, which is renewed."""
    assert record.state == "leased"
    return replace(record, lease_ends_at=0)


def freeze(worker):
    """Stop all processes of a worker; return their ids."""
    pids = processes(worker)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids
