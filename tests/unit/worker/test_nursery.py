"""How many children there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from django_taskq.worker import nursery as nursery_module
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
