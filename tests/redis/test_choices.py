"""What the flags choose: queues, recycling, reloading."""

from __future__ import annotations

import os

import pytest

from django_taskq.broker.envelope import Envelope
from django_taskq.broker.records import NewRecord
from tests.processes import ROOT, is_alive
from tests.redis import jobs
from tests.waiting import wait_until


def in_queue(task, name):
    return task.using(queue_name=name)


def test_queues_are_served_in_strict_order(start_worker, ended):
    results = [in_queue(jobs.name_it, queue).enqueue(queue) for queue in ("b", "a", "c", "a", "b")]

    start_worker("--queues", "a,b,c", "--threads", "1", "--burst", TASKQ_TEST_ALL_QUEUES="1").wait()

    ended(*results)
    assert jobs.notes() == ["a", "a", "b", "b", "c"]


def test_an_excluded_queue_is_left_alone(start_worker, ended, inspector):
    left = in_queue(jobs.add, "b").enqueue(1)
    done = in_queue(jobs.add, "a").enqueue(1)

    start_worker("--queues", "a,b", "--exclude-queues", "b", "--burst", TASKQ_TEST_ALL_QUEUES="1").wait()

    ended(done)
    assert inspector.record(left.id).state == "waiting"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--queues", "a,b,c", "-x", "b"], {"queues": "a,c", "excluded": ""}),
        # Nobody here works on the remote tasks in the last.
        (["-x", "b,c"], {"queues": "", "excluded": "b,c,receipts"}),
    ],
)
def test_its_presence_says_which_queues_it_serves(start_ready, inspector, arguments, said):
    start_ready("w", *arguments, TASKQ_TEST_ALL_QUEUES="1")

    (found,) = inspector.workers()

    assert {name: found[name] for name in said} == said


def test_without_named_queues_it_finds_every_queue_soon_after_its_first_use(start_worker, ended):
    start_worker(TASKQ_TEST_ALL_QUEUES="1")
    ended(in_queue(jobs.add, "first").enqueue(1))

    ended(in_queue(jobs.add, "second").enqueue(1))


def test_a_child_that_takes_too_much_memory_is_replaced_without_loss(start_worker, ended):
    worker = start_worker("--max-memory", "1", "--threads", "1")
    results = jobs.add.enqueue_many([((1,), {})] * 3)

    records = ended(*results)

    assert {record.attempts for record in records} == {1}
    assert len({record.history[0].child for record in records}) > 1
    assert worker.stop() == 0


def test_changed_code_is_run_after_the_children_were_replaced(start_worker, ended, noted, notes, inspector, tmp_path):
    module = tmp_path / "changing" / "tasks.py"
    module.parent.mkdir()
    write_version(module, 1)
    worker = start_worker("--reload", TASKQ_TEST_APPS="changing", PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}")
    running = jobs.hold.enqueue()
    noted("begin a")
    (child,) = worker.children()

    write_version(module, 2)

    wait_until(lambda: not is_alive(child), what="the old child ended")
    wait_until(lambda: notes().count("begin a") == 2)
    jobs.note("go")
    (record,) = ended(running)
    assert (record.state, record.attempts) == ("succeeded", 1)
    envelope = Envelope("changing.tasks.version").to_bytes()
    inspector.broker.enqueue([NewRecord("V1", "default", envelope)])
    wait_until(lambda: inspector.record("V1").result == 2)
    assert worker.stop() == 0


def write_version(module, version):
    module.write_text(f"from django_taskq import background\n\n@background\ndef version():\n    return {version}\n")
    os.utime(module, (version, version))
