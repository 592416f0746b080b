"""How many children there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from django_taskq.worker import nursery as nursery_module
from django_taskq.worker.exceptions import WorkerLost
from django_taskq.worker.nursery import Nursery
from django_taskq.worker.settings import Settings


class FakeChild:
    """A child that serves until the test says otherwise."""

    is_leaving = is_gone = is_alone = False

    def __init__(self, context, settings, connect, adopted=()):
        self.is_alone = bool(adopted)

    def start(self, then):
        pass


@pytest.fixture
def nursery(monkeypatch):
    monkeypatch.setattr(nursery_module, "ChildProcess", FakeChild)
    return Nursery(None, Settings(name="w", processes=2), None, SimpleNamespace(boards=[]), lambda: None)


def test_a_child_that_leaves_is_replaced_at_once(nursery):
    nursery.fill()
    nursery.children[0].is_leaving = True

    nursery.fill()

    assert len(nursery.serving) == 2


def test_those_that_leave_are_one_generation_at_most(nursery):
    for _ in range(5):
        nursery.fill()
        for child in nursery.children:
            child.is_leaving = True
    nursery.fill()
    assert len(nursery.children) == 4

    del nursery.children[0]
    nursery.fill()

    assert len(nursery.serving) == 1
    assert len(nursery.children) == 4


def test_processes_of_suspects_take_no_place(nursery):
    nursery.children += [FakeChild(None, None, None, ["lease"]) for _ in range(4)]

    nursery.fill()

    assert len(nursery.serving) == 2


@pytest.mark.parametrize(
    ("overdue", "still", "text"),
    [(["late"], 0, "late ran on after the time limit"), ([], 309, "it stood still for 300 s")],
)
def test_a_child_that_is_killed_until_it_is_gone_is_told_of_once(nursery, caplog, overdue, still, text):
    late = [SimpleNamespace(id=each) for each in overdue]
    board = SimpleNamespace(done=False, overdue=lambda at: late)
    killed = []

    def end(cause, culprits=()):
        child.cause = cause
        killed.append(cause)

    child = SimpleNamespace(id="w.1", board=board, cause=WorkerLost, end=end, stood_still_for=lambda: still)
    for _ in range(3):
        nursery._watch_ready(child, 0.0)

    assert len(killed) == 3
    assert len(caplog.records) == 1
    assert text in caplog.text
