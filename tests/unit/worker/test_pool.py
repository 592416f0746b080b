"""How many leases a child may claim, and what becomes of those that it can't start."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from django_taskq.worker.board import Board
from django_taskq.worker.outcomes import Succeeded
from django_taskq.worker.pool import Ended, Inbox, Pool, Turn
from tests.unit.worker.fakes import FakeApplication, make_lease
from tests.waiting import wait_until


def test_while_a_coroutine_blocks_the_event_loop_nothing_is_started():
    go = threading.Event()

    async def body(lease, control):
        go.wait(10)
        return Succeeded(b"{}")

    inbox = Inbox()
    pool = Pool(FakeApplication(None, body, coroutine=True), Board(8), inbox, inbox.put, "w.1", threads=4, coroutines=4)
    pool.start([make_lease()])
    assert pool.free_slots == 3

    pool.look()
    wait_until(lambda: pool.is_blocked)
    assert pool.free_slots == 0

    go.set()
    wait_until(lambda: isinstance(inbox.get(timeout=10), Turn))
    pool.turned()
    assert not pool.is_blocked
    assert pool.free_slots == 3


@pytest.fixture
def pool():
    """A pool of 4 threads and 64 coroutines; leases of queue `c` are those of coroutines. All run until the end."""
    go = threading.Event()

    class Application(FakeApplication):
        def is_coroutine(self, lease):
            return lease.queue == "c"

        async def aperform(self, lease, control):
            await asyncio.get_running_loop().run_in_executor(None, go.wait, 10)

    inbox = Inbox()
    application = Application(None, lambda lease, control: go.wait(10))
    yield Pool(application, Board(68), inbox, inbox.put, "w.1", threads=4, coroutines=64)
    go.set()


def leases(*queues):
    return [make_lease(number, queue=queue) for number, queue in enumerate(queues)]


def test_after_coroutines_alone_as_many_more_may_be_claimed(pool):
    room = [pool.free_slots]
    for _ in range(5):
        assert not pool.start(leases(*"c" * room[-1]))
        room.append(pool.free_slots)
    assert room == [4, 4, 8, 16, 32, 0]


def test_a_function_without_a_thread_is_left_and_no_more_are_claimed_than_there_are_threads(pool):
    pool.start(leases("c", "c", "c", "c"))
    pool.start(leases("c", "c", "c", "c"))
    assert pool.free_slots == 8
    claimed = leases("f", "f", "c", "f", "f", "f", "c", "f")

    left = pool.start(claimed)

    assert left == [claimed[5], claimed[7]]
    assert pool.free_slots == 0


def test_after_one_function_there_is_no_more_room_than_threads(pool):
    pool.start(leases("c", "c", "c", "c"))
    pool.start(leases("c", "c", "c", "f"))
    assert pool.free_slots == 3


def test_a_thread_is_lent_though_all_run():
    begun, go, done = threading.Semaphore(0), threading.Event(), threading.Event()

    def body(lease, control):
        begun.release()
        go.wait(10)

    inbox = Inbox()
    pool = Pool(FakeApplication(None, body), Board(8), inbox, inbox.put, "w.1", threads=2, coroutines=4)
    pool.start(leases("f", "f"))
    assert begun.acquire(timeout=5)
    assert begun.acquire(timeout=5)

    pool.lend(done.set)

    assert done.wait(5)
    go.set()


def test_a_thread_that_was_lent_runs_what_it_started_itself():
    ran = []
    inbox = Inbox()
    application = FakeApplication(None, lambda lease, control: ran.append(threading.get_ident()))
    pool = Pool(application, Board(8), inbox, inbox.put, "w.1", threads=4, coroutines=4)

    def errand():
        ran.append(threading.get_ident())
        pool.is_served = True
        pool.start([make_lease()])
        pool.is_served = False

    pool.lend(errand)

    inbox.get(timeout=10)
    assert ran == [ran[0]] * 2


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_coroutines_run_on_either_event_loop_and_what_ends_a_process_does_not_end_it(loop, monkeypatch):
    if loop == "asyncio":
        monkeypatch.setattr("django_taskq.worker.pool.uvloop", None)
    seen = []

    async def exit_process():
        raise SystemExit

    async def body(lease, control):
        seen.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])
        (done,), _ = await asyncio.wait([asyncio.create_task(exit_process())])
        return Succeeded(type(done.exception()).__name__.encode())

    inbox = Inbox()
    pool = Pool(FakeApplication(None, body, coroutine=True), Board(8), inbox, inbox.put, "w.1", threads=4, coroutines=4)
    for _ in range(2):
        pool.start([make_lease()])
        (run,) = inbox.get(timeout=10).runs
        assert run.outcome == Succeeded(b"SystemExit")
        pool.ended(run)
        pool.settled(run)
    assert seen == [loop, loop]


def test_each_coroutine_has_a_task_and_a_context_of_its_own_and_nothing_is_kept_of_it():
    current = contextvars.ContextVar("current", default=None)

    async def body(lease, control):
        before = current.get()
        current.set(lease.id)
        if lease.token % 2:
            await asyncio.sleep(0)
        return Succeeded(f"{before} {asyncio.current_task() in asyncio.all_tasks()}".encode())

    inbox = Inbox()
    pool = Pool(FakeApplication(None, body, coroutine=True), Board(8), inbox, inbox.put, "w.1", threads=4, coroutines=4)
    pool.start([make_lease(number) for number in range(4)])

    ended = []
    while len(ended) < 4:
        message = inbox.get(timeout=10)
        assert isinstance(message, Ended)
        ended += message.runs
    # Each had a context and a task of its own.
    assert {run.outcome for run in ended} == {Succeeded(b"None True")}
    assert not pool._coroutines._tasks
