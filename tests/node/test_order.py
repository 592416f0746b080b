"""Priorities, delays and keys hold, whoever enqueued and whoever works."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from tests.broker.helpers import now
from tests.node import tasks
from tests.node.ledger import LATENESS, NODE, PYTHON
from tests.rules import check_rules
from tests.waiting import wait_until

EITHER = pytest.mark.parametrize("language", [PYTHON, NODE])


@pytest.fixture
def enqueue(hand):
    """Give a function that enqueues a task in a language, and returns its id."""

    def enqueue(language, *, priority=0, delay_ms=0):
        if language == NODE:
            options = {"priority": priority, "delayMs": delay_ms}
            return hand.ask("enqueue", name="border.work", args="[0]", options=options)["id"]
        task = tasks.work.using(priority=priority)
        if delay_ms:
            task = task.using(run_after=timedelta(milliseconds=delay_ms))
        return task.enqueue(0).id

    return enqueue


def place(record):
    """Return what sorts a record among those that were due when it was enqueued."""
    return -record.head.priority, record.head.enqueued_at, record.id


@EITHER
def test_a_consumer_takes_the_larger_priority_first_and_then_the_older(
    start_single, enqueue, ended, inspector, ledger, language
):
    draw = random.Random(3)
    ids = [enqueue(draw.choice([PYTHON, NODE]), priority=draw.choice([-100, -1, 0, 0, 1, 7, 100])) for _ in range(60)]
    records = inspector.records(ids)
    assert len({(record.head.priority, record.envelope.meta == {}) for record in records}) == 12

    start_single(language)

    check_rules(ended(*ids))
    assert [run.id for run in ledger().order] == [record.id for record in sorted(records, key=place)]


@EITHER
def test_a_delayed_task_never_runs_before_its_time_and_needs_no_other_to_be_enqueued(
    start_single, enqueue, ended, inspector, ledger, language
):
    start_single(language)
    draw = random.Random(4)
    delays = {enqueue(draw.choice([PYTHON, NODE]), delay_ms=delay): delay for delay in draw.sample(range(50, 2500), 20)}

    records = ended(*delays)

    check_rules(records)
    runs = {run.id: run for run in ledger().order}
    late = [runs[record.id].began_at - record.head.enqueued_at - delays[record.id] for record in records]
    assert min(late) >= 0
    assert max(late) < LATENESS
    assert sorted(late)[len(late) // 2] < 500


@EITHER
def test_an_urgent_task_that_is_delayed_does_not_stand_before_one_that_is_due(
    start_single, enqueue, ended, inspector, broker, ledger, open_gate, hand, begun, language
):
    gate = hand.ask("enqueue", name="border.hold", args='["go"]', options={"priority": 100})["id"]
    hour = 3_600_000
    urgent = [enqueue(each, priority=100, delay_ms=hour) for each in (PYTHON, NODE)]
    soon = [enqueue(each, priority=100, delay_ms=300) for each in (PYTHON, NODE)]
    due = [enqueue(each, priority=-100) for each in (PYTHON, NODE)]
    start_single(language)
    (held,) = begun(gate)
    wait_until(lambda: now(broker) > held.began_at + 600)

    open_gate("go")

    ended(gate, *soon, *due)
    assert [run.id for run in ledger().order] == [gate, *in_order(inspector, soon), *in_order(inspector, due)]
    assert {record.state for record in inspector.records(urgent)} == {"waiting"}


def in_order(inspector, ids):
    return [record.id for record in sorted(inspector.records(ids), key=place)]
