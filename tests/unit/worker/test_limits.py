"""Time limits of functions never strike outside the body."""

from __future__ import annotations

import time

import pytest

from django_taskq.worker.board import Board
from django_taskq.worker.exceptions import TaskTimeout
from django_taskq.worker.limits import Limits, ThreadLimit
from tests.unit.worker.fakes import make_lease
from tests.waiting import wait_until


@pytest.fixture
def limit():
    limits, board = Limits(), Board(1)
    board.occupy(0, make_lease())
    return lambda seconds: ThreadLimit(limits, board, 0, seconds)


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_body_that_runs_too_long_is_interrupted(limit):
    started = time.monotonic()

    with pytest.raises(TaskTimeout), limit(0.05):
        spin(5)

    assert time.monotonic() - started < 2


def test_a_body_that_ends_in_time_is_not(limit):
    with limit(0.3):
        pass

    spin(0.4)


def test_a_body_may_catch_it_and_go_on(limit):
    with limit(0.05):
        try:
            spin(5)
        except TaskTimeout:
            caught = True
        spin(0.1)

    assert caught


def test_it_never_strikes_after_the_body_however_close(limit):
    struck = 0
    for round in range(300):
        try:
            with limit(0.002):
                spin(0.0018 + (round % 10) * 0.00005)
        except TaskTimeout:
            struck += 1
        # Here it would end the test.
        spin(0.0005)

    assert struck < 300


def test_a_shorter_limit_is_seen_while_a_longer_one_is_waited_for(limit):
    with limit(60), pytest.raises(TaskTimeout), limit(0.05):
        spin(5)


def test_a_limit_too_far_away_to_wait_for_leaves_the_others_watched(limit):
    with limit(1e10), pytest.raises(TaskTimeout), limit(0.05):
        spin(5)


def test_limits_that_ended_are_not_kept(limit):
    first = limit(60)
    with first:
        pass

    wait_until(lambda: not first._limits._armed)
