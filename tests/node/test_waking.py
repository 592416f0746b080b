"""Whoever is woken sees to it that nothing waits for nobody, also where the others are of another language."""

from __future__ import annotations

from functools import partial

import pytest

from tests.broker.helpers import envelope, now, record
from tests.node.ledger import LATENESS, NODE, PYTHON
from tests.rules import check_rules
from tests.waiting import wait_until

LEASE = 1

BOTH_WAYS = pytest.mark.parametrize(("busy", "idle"), [(NODE, PYTHON), (PYTHON, NODE)])


@pytest.fixture
def start_single(start_single):
    return partial(start_single, lease=LEASE)


def hold(gate, **fields):
    return record("default", envelope=envelope("border.hold", args=[gate]), **fields)


def work(**fields):
    return record("default", envelope=envelope("border.work", args=[0]), **fields)


def run_of(ledger, record_id):
    (run,) = ledger().runs[record_id]
    return run


@BOTH_WAYS
def test_c01_a_task_of_four_leases_runs_once_beside_an_idle_worker_that_reaps(
    broker, start_single, begun, open_gate, ended, inspector, ledger, busy, idle
):
    (held,) = broker.enqueue([hold("go")])
    start_single(busy)
    (run,) = begun(held.id)
    start_single(idle)

    wait_until(lambda: now(broker) > run.began_at + 4000 * LEASE)

    found = inspector.record(held.id)
    assert (found.state, found.attempts, found.token) == ("leased", 1, run.token)
    open_gate("go")
    (found,) = ended(held.id)
    check_rules([found])
    assert (found.state, found.attempts, found.token) == ("succeeded", 1, run.token)
    assert run_of(ledger, held.id).language == busy


@BOTH_WAYS
def test_c20_short_tasks_do_not_sit_behind_a_long_one_in_the_hands_of_the_other(
    broker, start_single, begun, open_gate, ended, ledger, busy, idle
):
    (held,) = broker.enqueue([hold("go")])
    start_single(busy)
    begun(held.id)
    start_single(idle)

    records = ended(*(one.id for one in broker.enqueue([work() for _ in range(20)])))
    assert max(record.finished_at for record in records) - records[0].head.enqueued_at < LATENESS
    for _ in range(20):  # one by one, each wakes who has a hand free
        records += ended(broker.enqueue([work()])[0].id)

    runs = [run_of(ledger, record.id) for record in records]
    assert {run.language for run in runs} == {idle}
    late = [run.began_at - record.head.enqueued_at for run, record in zip(runs, records, strict=True)][20:]
    assert sorted(late)[10] < 1000  # nobody waited for the 5 s of a wait to be over
    open_gate("go")
    check_rules([*records, *ended(held.id)])


def test_c58_a_worker_that_is_busy_leaves_the_watch_to_the_idle_one_of_the_other_language(
    broker, start_single, begun, open_gate, ended, ledger
):
    start_single(PYTHON)
    start_single(NODE)
    seen = []
    for number in range(6):
        # In one step, with one marker for both: who takes the one that is due has no hands for the other.
        delayed, held = broker.enqueue([work(delay_ms=300), hold(f"go {number}")])
        (holder,) = begun(held.id)
        (found,) = ended(delayed.id, timeout=8)
        run = run_of(ledger, delayed.id)
        assert 0 <= run.began_at - found.head.enqueued_at - 300 < LATENESS
        seen.append((holder.language, run.language))
        open_gate(f"go {number}")
        check_rules([found, *ended(held.id)])

    assert all(holder != other for holder, other in seen), seen


def test_who_is_woken_with_full_hands_wakes_the_other(broker, start_single, begun, open_gate, ended, ledger):
    start_single(PYTHON)
    start_single(NODE)
    seen = set()
    for number in range(8):
        if number % 2:
            ended(broker.enqueue([work()])[0].id)  # the other way round
        # Who is woken by this keeps watch until it is due, last in line; by what the other does meanwhile, it is first,
        # and still in line when its own clock has told it to claim.
        (held,) = broker.enqueue([hold(f"go {number}", delay_ms=300)])
        ended(broker.enqueue([work()])[0].id)
        (holder,) = begun(held.id)
        (one,) = broker.enqueue([work()])
        (found,) = ended(one.id, timeout=8)
        run = run_of(ledger, one.id)
        assert run.began_at - found.head.enqueued_at < LATENESS
        seen.add((holder.language, run.language))
        open_gate(f"go {number}")
        check_rules([found, *ended(held.id)])

    assert seen <= {(PYTHON, NODE), (NODE, PYTHON)}  # mostly both


@BOTH_WAYS
def test_c58_a_worker_that_stops_leaves_the_watch_to_the_other_language(
    broker, start_single, ended, ledger, redis_client, busy, idle
):
    leaving = start_single(busy)
    start_single(idle)
    for _ in range(2):  # Who was served last is the last in line.
        ended(broker.enqueue([work()])[0].id)
    (delayed,) = broker.enqueue([work(delay_ms=1500)])

    assert leaving.stop() == 0

    (found,) = ended(delayed.id, timeout=8)
    check_rules([found])
    run = run_of(ledger, delayed.id)
    assert run.language == idle
    assert 0 <= run.began_at - found.head.enqueued_at - 1500 < LATENESS
