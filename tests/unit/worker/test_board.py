"""The board: what one process writes, the other reads."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace

from django_taskq.worker.board import BEGUN, CLAIMED, ENDED, Board
from tests.unit.worker.fakes import make_lease


def test_a_lease_stands_on_the_board_until_it_is_cleared():
    board, lease = Board(2), make_lease(queue="a" * 100)

    board.occupy(1, lease)
    (held,) = board.leases()

    assert (held.slot, held.id, held.queue, held.token, held.attempt) == (1, lease.id, lease.queue, lease.token, 1)
    assert not board.is_empty
    board.clear(1)
    assert board.leases() == []
    assert board.is_empty


def test_a_run_goes_through_its_states():
    board = Board(1)
    board.occupy(0, make_lease())
    states = [board.leases()[0].state]
    board.begin(0)
    states.append(board.leases()[0].state)
    board.end(0)
    states.append(board.leases()[0].state)

    assert states == [CLAIMED, BEGUN, ENDED]


def test_another_process_sees_the_same_memory():
    board = Board(3)
    process = multiprocessing.get_context("spawn").Process(target=fill, args=(board,))

    process.start()
    process.join()

    assert [held.id for held in board.leases()] == ["id7"]
    assert board.nonce == 5


def fill(board):
    board.occupy(2, make_lease(7))
    board.nonce = 5


def test_a_lease_is_lost_past_its_deadline_unless_it_was_renewed():
    board = Board(1)
    lease = make_lease(deadline=time.monotonic() - 1)
    board.occupy(0, lease)
    assert board.is_lost(0, lease)

    board.renewed(board.leases()[0], time.monotonic() + 60)

    assert not board.is_lost(0, lease)


def test_what_is_said_about_a_lease_says_nothing_about_the_next_in_its_slot():
    board, first = Board(1), make_lease(1)
    board.occupy(0, first)
    (held,) = board.leases()
    board.clear(0)
    second = make_lease(2)
    board.occupy(0, second)

    board.lose(held)
    board.ask_to_cancel(held)
    board.renewed(held, time.monotonic() - 1)

    assert not board.holds(held)
    assert not board.is_lost(0, second)
    assert not board.is_cancelled(0, second)


def test_the_same_record_claimed_again_is_another_lease():
    board, first = Board(1), make_lease(1)
    board.occupy(0, first)
    (held,) = board.leases()
    board.clear(0)

    board.occupy(0, replace(first, token=first.token + 1))

    assert not board.holds(held)


def test_a_lease_that_waits_to_be_settled_cannot_be_lost():
    board = Board(1)
    board.occupy(0, make_lease())
    (held,) = board.leases()
    assert board.holds(held)

    board.end(0)

    assert not board.holds(held)


def test_a_run_is_overdue_only_while_its_limit_is_armed():
    board = Board(2)
    board.occupy(0, make_lease())
    board.begin(0)
    now = time.monotonic()
    board.limit(0, now - 1)
    assert [held.id for held in board.overdue(now)] == ["id1"]

    board.limit(0, 0)

    assert list(board.overdue(now)) == []


def test_no_reader_sees_parts_of_two_records():
    board = Board(1)
    process = multiprocessing.get_context("spawn").Process(target=churn, args=(board,))
    process.start()
    seen = set()
    while process.is_alive():
        seen |= {(held.id, held.queue, held.token) for held in board.leases()}
    process.join()

    assert seen <= {("id1", "a", 1001), ("id22222", "bb", 23222)}
    assert seen


def churn(board):
    leases = [make_lease(1, queue="a"), make_lease(22222, queue="bb")]
    end = time.monotonic() + 1
    while time.monotonic() < end:
        for lease in leases:
            board.occupy(0, lease)
            time.sleep(0)
            board.clear(0)
