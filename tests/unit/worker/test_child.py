"""The main loop of a child, on a stand-in for Redis."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from django_taskq.broker.exceptions import BrokerError, BrokerUnavailable
from django_taskq.broker.records import Claimed
from django_taskq.broker.settlements import Complete, Release, Retry
from django_taskq.worker.board import Board
from django_taskq.worker.outcomes import Succeeded
from django_taskq.worker.pool import Inbox
from django_taskq.worker.process import Child, Stop
from django_taskq.worker.settings import Settings
from tests.unit.worker.fakes import FakeApplication, FakeBroker, make_lease
from tests.waiting import SLACK, wait_until


@pytest.fixture
def start():
    """Start the loop of a child in a thread, and end it after the test."""
    started = []

    def start(application, **settings):
        settings = Settings(name="w", queues=("default",), **{"threads": 2, **settings})
        board, inbox = Board(settings.slots), Inbox()
        child = Child("w.1", settings, application, board, inbox)
        thread = threading.Thread(target=child.run)
        thread.start()
        started.append((thread, inbox))
        return board, inbox, thread

    yield start
    for thread, inbox in started:
        inbox.put(Stop())
        thread.join(10)
        assert not thread.is_alive()


def settled(broker):
    return sorted(settlement.lease.id for settlement in broker.settled)


def test_it_runs_what_is_there_and_settles_it(start):
    broker = FakeBroker(*map(make_lease, range(5)))
    start(FakeApplication(broker))

    wait_until(lambda: len(broker.settled) == 5)

    assert all(isinstance(settlement, Complete) for settlement in broker.settled)
    assert all(claim.count <= 2 for claim in broker.claims)


def test_it_claims_no_more_than_it_can_start(start):
    go = threading.Event()
    broker = FakeBroker(*map(make_lease, range(5)))
    board, *_ = start(FakeApplication(broker, lambda *_: go.wait(10) and Succeeded(b"{}")))

    wait_until(lambda: len(board.leases()) == 2)
    assert len(broker.ready) == 3

    go.set()
    wait_until(lambda: len(broker.settled) == 5)


def test_coroutines_run_at_once(start):
    barrier = asyncio.Barrier(20)

    async def body(lease, control):
        await barrier.wait()
        return Succeeded(b"{}")

    broker = FakeBroker(*map(make_lease, range(20)))
    start(FakeApplication(broker, body, coroutine=True), threads=4, coroutines=20)

    wait_until(lambda: len(broker.settled) == 20)


def test_a_finished_task_is_settled_at_once_though_another_runs_on(start):
    go = threading.Event()
    ended = []

    def body(lease, control):
        if lease.id == "id1":
            go.wait(10)
        ended.append(time.monotonic())
        return Succeeded(b"{}")

    broker = FakeBroker(make_lease(1), make_lease(2))
    start(FakeApplication(broker, body))
    wait_until(lambda: settled(broker) == ["id2"])

    assert time.monotonic() - ended[0] < SLACK
    go.set()


def test_it_looks_again_when_it_is_woken(start):
    broker = FakeBroker()
    start(FakeApplication(broker))
    wait_until(lambda: broker.claims)

    broker.wake(make_lease(1))

    wait_until(lambda: settled(broker) == ["id1"])


def test_it_claims_when_the_next_record_is_due_though_nothing_wakes_it(start):
    broker = FakeBroker()
    broker.next_due_ms = 50
    start(FakeApplication(broker))
    wait_until(lambda: broker.claims)

    broker.ready.append(make_lease(1))

    wait_until(lambda: settled(broker) == ["id1"], SLACK)


def test_a_marker_that_it_cannot_answer_is_armed_again(start):
    go = threading.Event()
    broker = FakeBroker()
    broker.next_due_ms = 20
    board, *_ = start(FakeApplication(broker, lambda *_: go.wait(20) and Succeeded(b"{}")))
    wait_until(lambda: broker.claims)
    # It waits for the marker, and the clock makes it claim meanwhile.
    broker.ready += [make_lease(1), make_lease(2)]
    wait_until(lambda: len(board.leases()) == 2)

    broker.wake(make_lease(3))

    wait_until(lambda: broker.armed == ["default"])
    go.set()
    wait_until(lambda: settled(broker) == ["id1", "id2", "id3"])


def test_a_lost_claim_is_sent_again_with_its_nonce(start):
    broker = FakeBroker(make_lease(1))
    broker.is_away = True
    board, *_ = start(FakeApplication(broker))
    wait_until(lambda: len(broker.claims) >= 3)
    assert {claim.nonce for claim in broker.claims} == {1}
    assert board.nonce == 1

    broker.is_away = False

    wait_until(lambda: settled(broker) == ["id1"])


def test_what_ended_during_an_outage_is_settled_after_it(start):
    go = threading.Event()
    broker = FakeBroker(make_lease(1))
    board, *_ = start(FakeApplication(broker, lambda *_: go.wait(10) and Succeeded(b"{}")))
    wait_until(board.leases)
    broker.is_away = True
    go.set()
    wait_until(lambda: board.leases() and board.leases()[0].state == 3)

    broker.is_away = False

    wait_until(lambda: settled(broker) == ["id1"])
    wait_until(lambda: board.is_empty)


def test_a_lease_past_its_deadline_is_not_begun(start):
    broker = FakeBroker(make_lease(1, deadline=time.monotonic() - 1))
    begun = []
    start(FakeApplication(broker, lambda lease, control: begun.append(lease) or Succeeded(b"{}")))

    wait_until(lambda: settled(broker) == ["id1"])

    assert isinstance(broker.settled[0], Release)
    assert not begun


def test_told_to_stop_it_claims_no_more_and_ends_after_what_runs(start):
    go = threading.Event()
    broker = FakeBroker(make_lease(1))
    board, inbox, thread = start(FakeApplication(broker, lambda *_: go.wait(10) and Succeeded(b"{}")))
    wait_until(board.leases)

    inbox.put(Stop())
    wait_until(lambda: board.retiring)
    broker.wake(make_lease(2))
    go.set()

    thread.join(10)
    assert settled(broker) == ["id1"]
    assert board.done


def test_a_child_that_is_to_stop_waits_for_no_answer_while_redis_is_away(start):
    broker = FakeBroker(make_lease(1))
    broker.is_away = True
    board, inbox, thread = start(FakeApplication(broker))
    wait_until(lambda: broker.claims)

    inbox.put(Stop())

    thread.join(10)
    assert board.done
    # The supervisor asks about it.
    assert board.nonce == 1


def test_what_a_lost_claim_took_is_given_back_by_a_child_that_is_to_stop(start):
    class Forgetful(FakeBroker):
        """Leases id2, and loses its answers until it is told to remember."""

        remembers = False

        def exchange(self, settlements, claim):
            words, claimed = super().exchange(settlements, claim)
            if claim is None or claim.nonce == 1:
                return words, claimed
            if not self.remembers:
                raise BrokerUnavailable("lost", maybe_executed=True)
            return words, Claimed([make_lease(2)], None)

    go = threading.Event()
    broker = Forgetful(make_lease(1))
    board, inbox, thread = start(FakeApplication(broker, lambda *_: go.wait(10) and Succeeded(b"{}")))
    wait_until(board.leases)
    broker.woken.set()
    wait_until(lambda: broker.claims[-1].nonce == 2)
    inbox.put(Stop())
    wait_until(lambda: broker.claims[-1].count == 0)

    broker.remembers = True

    wait_until(lambda: settled(broker) == ["id2"])
    assert isinstance(broker.settled[0], Release)
    go.set()
    thread.join(10)
    assert settled(broker) == ["id1", "id2"]


def test_what_the_application_raises_all_the_same_is_a_failed_attempt(start):
    def body(lease, control):
        raise SystemExit

    broker = FakeBroker(make_lease(1))
    start(FakeApplication(broker, body))

    wait_until(lambda: broker.settled)

    assert isinstance(broker.settled[0], Retry)


def test_an_outcome_that_redis_refuses_does_not_hold_up_the_others(start):
    class Picky(FakeBroker):
        def exchange(self, settlements, claim):
            if any(settlement.lease.id == "id1" for settlement in settlements):
                raise BrokerError("WRONGTYPE")
            return super().exchange(settlements, claim)

    broker = Picky(*map(make_lease, range(6)))
    board, *_ = start(FakeApplication(broker))

    wait_until(lambda: settled(broker) == ["id0", "id2", "id3", "id4", "id5"])
    wait_until(lambda: board.is_empty)


def test_its_loop_moves_while_all_slots_are_busy(start):
    go = threading.Event()
    broker = FakeBroker(make_lease(1), make_lease(2))
    board, *_ = start(FakeApplication(broker, lambda *_: go.wait(10) and Succeeded(b"{}")))
    wait_until(lambda: len(board.leases()) == 2)
    before = board.loops

    wait_until(lambda: board.loops > before + 1)

    go.set()


@pytest.mark.parametrize("next_due_ms", [60_000, None])
def test_a_child_that_is_to_stop_wakes_another_for_the_time_that_it_watched(start, next_due_ms):
    broker = FakeBroker()
    broker.next_due_ms = next_due_ms
    board, inbox, thread = start(FakeApplication(broker))
    wait_until(lambda: board.idle)

    inbox.put(Stop())

    thread.join(10)
    assert board.done
    # A claim of nothing wakes who can see to what is left.
    assert [claim.count for claim in broker.claims[1:]] == ([] if next_due_ms is None else [0])


def test_functions_for_which_there_is_no_thread_go_back_at_once(start):
    class Application(FakeApplication):
        def is_coroutine(self, lease):
            return int(lease.id[2:]) < 5

        async def aperform(self, lease, control):
            return Succeeded(b"{}")

    go = threading.Event()
    broker = FakeBroker(*map(make_lease, range(30)))
    board, *_ = start(Application(broker, lambda *_: go.wait(10) and Succeeded(b"{}")), threads=2, coroutines=20)

    released = wait_until(lambda: [each.lease.id for each in broker.settled if isinstance(each, Release)])

    assert released == ["id7"]
    wait_until(lambda: len(board.leases()) == 2)
    go.set()


def test_a_thread_whose_task_ended_tells_redis_itself_and_runs_what_it_claims(start):
    ran, told = [], []

    class Noting(FakeBroker):
        def exchange(self, settlements, claim):
            for settlement in settlements:
                told.append((settlement.lease.id, threading.current_thread().name))
            return super().exchange(settlements, claim)

    def body(lease, control):
        ran.append((lease.id, threading.current_thread().name))
        return Succeeded(b"{}")

    broker = Noting(*map(make_lease, range(50)))
    start(FakeApplication(broker, body), threads=1)
    wait_until(lambda: len(broker.settled) == 50)

    # By the thread that ran it; which of the two that is, is open.
    assert len(set(told) & set(ran)) > 25


def test_an_error_of_a_thread_that_does_the_work_of_the_main_loop_ends_the_child():
    class Broken(FakeBroker):
        def exchange(self, settlements, claim):
            if settlements and threading.current_thread() is not threading.main_thread():
                raise RuntimeError("no such thing")
            return super().exchange(settlements, claim)

    settings = Settings(name="w", queues=("default",), threads=1)
    child = Child("w.1", settings, FakeApplication(Broken(make_lease())), Board(settings.slots), Inbox())
    with pytest.raises(RuntimeError, match="no such thing"):
        child.run()


def test_what_one_thread_does_the_main_loop_hears_of_in_time(start):
    """The thread learns of a due time while the main loop has gone to sleep for longer."""
    broker = FakeBroker(make_lease(1))
    go = threading.Event()
    start(FakeApplication(broker, lambda lease, control: go.wait(10) and Succeeded(b"{}")), threads=1)
    wait_until(lambda: not broker.ready)
    broker.next_due_ms = 50
    broker.ready.append(make_lease(2))
    broker.claims.clear()
    go.set()
    wait_until(lambda: settled(broker) == ["id1", "id2"])

    broker.ready.append(make_lease(3))
    begun = time.monotonic()
    wait_until(lambda: "id3" in settled(broker))
    assert time.monotonic() - begun < SLACK
