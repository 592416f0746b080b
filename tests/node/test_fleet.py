"""Two children in Python and two workers in Node.js drain one queue."""

from __future__ import annotations

from collections import Counter

import pytest

from django_taskq.broker.envelope import dump_json
from tests.node import tasks
from tests.node.ledger import NODE, PYTHON, digest
from tests.rules import check_rules
from tests.waiting import wait_until

TASKS = 10_000
HALF = TASKS // 2
#: Of these each half has so many that only the other language knows: its last, so that they are still there to be seen.
FOREIGN = 100
#: What is told of an error, in the records of one side as in the results of the other.
FIELDS = ("error", "message", "traceback", "reason")


def failures_of(number):
    """Return how many attempts of a task fail: three is all that it has."""
    return (0, 0, 0, 0, 0, 0, 1, 1, 2, 3)[number % 10]


def wanted(number):
    return "dead" if failures_of(number) == 3 else "succeeded"


def node_call(number):
    name = "border.python_only" if number >= HALF - FOREIGN else "border.work"
    return {"name": name, "args": f"[{number},{failures_of(number)}]", "options": {"backoff": tasks.SOON}}


def enqueue(hand):
    """Enqueue half in each language; return for each id its number, in the order of the halves."""
    hand.begin("many", calls=[node_call(number) for number in range(HALF)])
    numbers = range(HALF, TASKS)
    node_only = tasks.node_only.using(queue_name="default")
    results = [
        *tasks.work.enqueue_many([((number, failures_of(number)), {}) for number in numbers[:-FOREIGN]]),
        *node_only.enqueue_many([((number, failures_of(number)), {}) for number in numbers[-FOREIGN:]]),
    ]
    answers = hand.answer()
    assert {word for _, word in answers} == {"STORED"}
    return {PYTHON: [result.id for result in results], NODE: [record_id for record_id, _ in answers]}


def drain(inspector, ids, foreign):
    """Wait until all have ended; what a worker didn't know doesn't wait its turn, for somebody promotes it."""
    counts = Counter()

    def is_drained():
        scheduled = {record_id for record_id, _ in inspector.listing("default", "scheduled")}
        for record_id in scheduled & foreign:
            counts[record_id] += inspector.broker.promote(record_id) == "DONE"
        with inspector.broker.client.pipeline() as at_once:
            for place in ("ready", "scheduled", "leased"):
                at_once.zcard(f"{{taskq}}:queue:default:{place}")
            return not any(at_once.execute())

    wait_until(is_drained, 120, f"{len(ids)} tasks are done")
    return counts


def show(*words):
    print("fleet:", *words)


@pytest.mark.shown
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_mixed_fleet_drains_10_000_tasks(start_python, start_node, hand, inspector, ledger):
    start_python("python", "--processes", "2", "--threads", "4", lease=30)
    for name in ("node-1", "node-2"):
        start_node(name, lease=30, concurrency=4)
    enqueued = enqueue(hand)
    ids = [*enqueued[NODE], *enqueued[PYTHON]]
    foreign = {PYTHON: set(enqueued[NODE][-FOREIGN:]), NODE: set(enqueued[PYTHON][-FOREIGN:])}

    promoted = drain(inspector, ids, foreign[PYTHON] | foreign[NODE])

    book = ledger()
    book.check()
    records = inspector.records(ids)
    check_rules(records)
    each_ends_once(book, records)
    claimed_is_enqueued(book, set(ids), foreign)
    assert sum(promoted[record_id] for record_id in foreign[PYTHON]) > 0
    assert sum(promoted[record_id] for record_id in foreign[NODE]) > 0
    retries_cross_both_ways(book)
    both_read_the_same(hand, records)


def each_ends_once(book, records):
    for number, record in enumerate(records):
        assert record.state == wanted(number)
        runs = book.runs[record.id]
        ends = ["failed"] * failures_of(number) + ["done"]
        assert [run.end for run in runs] == ends[:3]
        assert [(run.attempt, run.token) for run in runs] == [(one.attempt, one.token) for one in record.history]
        assert [run.language for run in runs] == [language_of(child) for child in record.worker_ids]
    states = Counter(record.state for record in records)
    show(f"{states['succeeded']} succeeded, {states['dead']} are dead, after {len(book.order)} runs")


def language_of(child):
    """Tell by the name of a worker, as python.kd82mfq1 or node-1.kd82mfq1, what it is written in."""
    return PYTHON if child.startswith(PYTHON) else NODE


def claimed_is_enqueued(book, enqueued, foreign):
    claimed = {language: book.ids(language) for language in (PYTHON, NODE)}
    for language, found in claimed.items():
        runs = [run.who for run in book.order if run.language == language]
        show(f"{language} claimed {digest(found)}, for {len(runs)} runs in {len(set(runs))} processes")
        assert len(set(runs)) == 2
        assert foreign[language] <= found
    assert not claimed[PYTHON] & foreign[NODE]
    assert not claimed[NODE] & foreign[PYTHON]
    show(f"claimed by either: {digest(claimed[PYTHON] | claimed[NODE])}")
    show(f"enqueued:          {digest(enqueued)}")
    assert claimed[PYTHON] | claimed[NODE] == enqueued


def retries_cross_both_ways(book):
    there, back = book.crossings(PYTHON, NODE), book.crossings(NODE, PYTHON)
    show(f"retries that crossed: {there} from Python to Node.js, {back} from Node.js to Python")
    assert there
    assert back


def both_read_the_same(hand, records):
    """Every task, read in Node.js as in Python: its state, its result, and the errors of both languages."""
    kinds = Counter()
    for record, seen in zip(records, hand.ask("results", ids=[record.id for record in records]), strict=True):
        assert (seen["id"], seen["state"], seen["attempts"]) == (record.id, record.state, record.attempts)
        assert seen["result"] == dump_json(record.result).decode()
        assert seen["workerIds"] == record.worker_ids
        errors = [attempt.error for attempt in record.round if attempt.error]
        assert [tuple(error[name] for name in FIELDS) for error in seen["errors"]] == [
            tuple(getattr(error, name) for name in FIELDS) for error in errors
        ]
        kinds.update((error.error, error.message.partition(" fails")[2]) for error in errors)
    assert set(kinds) == {("builtins.ValueError", " in Python"), ("RangeError", " in Node")}
    show(f"errors read on both sides: {dict(kinds)}")
