"""What one side can't run stays for the other: names, versions, and records with a row."""

from __future__ import annotations

import pytest

from tests.broker.helpers import envelope, now, put, read
from tests.node import tasks
from tests.node.ledger import NODE, PYTHON
from tests.rules import check_rules
from tests.waiting import wait_until

#: Who runs into a name that only the other knows.
BOTH_WAYS = pytest.mark.parametrize(("first", "other"), [(NODE, PYTHON), (PYTHON, NODE)])


@pytest.fixture
def start(start_python, start_node):
    """Give a function that starts a worker in a language, with its `unknown_ttl` in seconds."""

    def start(language, unknown_ttl=86_400, **variables):
        if language == PYTHON:
            return start_python(options={"unknown_ttl": unknown_ttl}, **variables)
        return start_node(unknownTtlMs=unknown_ttl * 1000)

    return start


@pytest.fixture
def enqueue_for(hand):
    """Give a function that enqueues a task that only this language knows, from the other one."""

    def enqueue(language):
        if language == PYTHON:
            return hand.ask("enqueue", name="border.python_only", args="[1]")["id"]
        return tasks.node_only.using(queue_name="default").enqueue(1).id

    return enqueue


def given_back(broker, record_id, releases):
    """Wait until a record was released so often as unknown; return it."""

    def found():
        held = read(broker, record_id)
        return held if held.releases == releases and held.state == "waiting" else None

    return wait_until(found, 30, f"{releases} releases")


@BOTH_WAYS
def test_a_name_that_only_the_other_knows_goes_back_until_that_comes(
    broker, start, enqueue_for, ended, ledger, first, other
):
    record_id = enqueue_for(other)
    worker = start(first)
    for releases in (1, 2, 3):
        found = given_back(broker, record_id, releases)
        assert (found.attempts, found.history) == (0, ())
        assert 5000 * releases - 4000 < found.due_at - now(broker) <= 5000 * releases
        # A person doesn't want to wait.
        if releases < 3:
            assert broker.promote(record_id) == "DONE"
    worker.stop()

    start(other)
    broker.promote(record_id)

    (found,) = ended(record_id)
    check_rules([found])
    assert (found.state, found.attempts) == ("succeeded", 1)
    assert ledger().ids(other) == {record_id}
    assert ledger().ids(first) == set()


@BOTH_WAYS
def test_a_name_that_nobody_knew_for_too_long_is_buried_and_can_be_retried(
    broker, start, enqueue_for, ended, first, other
):
    record_id = enqueue_for(other)
    worker = start(first, unknown_ttl=1)
    since = now(broker)
    given_back(broker, record_id, 1)
    wait_until(lambda: now(broker) > since + 1500)

    broker.promote(record_id)

    (found,) = ended(record_id)
    assert (found.state, found.attempts) == ("dead", 1)
    (attempt,) = found.history
    assert attempt.error.reason == "unknown task"
    assert attempt.error.error.rpartition(".")[2] == "UnknownTask"
    assert "nor was it elsewhere" in attempt.error.message
    worker.stop()
    start(other, unknown_ttl=1)
    assert broker.requeue([(record_id, found.died_at, 0)]) == ["DONE"]
    (found,) = ended(record_id)
    assert (found.state, found.attempts) == ("succeeded", 1)


@pytest.mark.parametrize("language", [PYTHON, NODE])
def test_what_no_side_calls_a_task_is_run_by_none(broker, start, ledger, language):
    names = ["constructor", "__proto__", "toString", "hasOwnProperty", "then", "border", "border.work ", "Border.work"]
    ids = [put(broker, queue="default", envelope=envelope(name))[0] for name in names]
    start(language)
    assert {given_back(broker, record_id, 1).attempts for record_id in ids} == {0}
    assert ledger().order == []


@pytest.mark.parametrize("language", [PYTHON, NODE])
def test_a_record_of_a_later_version_goes_back_and_one_that_is_none_is_buried_with_its_bytes(
    broker, start, ended, ledger, language
):
    (later,) = put(broker, queue="default", envelope=b'{"v":2,"name":"border.work","args":[0]}')
    broken = [b"", b"[]", b"{", b"\xff", b'{"v":1}', b'{"v":1,"name":"border.work","args":{}}', b'{"name":NaN}']
    broken_ids = [put(broker, queue="default", envelope=text)[0] for text in broken]

    start(language)

    records = ended(*broken_ids)
    assert [record.envelope_bytes for record in records] == broken
    assert {(record.state, record.attempts) for record in records} == {("dead", 1)}
    assert {record.history[0].error.reason for record in records} == {"unreadable record"}
    assert given_back(broker, later, 1).attempts == 0
    assert ledger().order == []
