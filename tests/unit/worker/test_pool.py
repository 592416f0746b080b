"""What can be started while the event loop is blocked."""

from __future__ import annotations

import threading

from django_taskq.worker.board import Board
from django_taskq.worker.outcomes import Succeeded
from django_taskq.worker.pool import Inbox, Pool, Turn
from tests.unit.worker.fakes import FakeApplication, make_lease
from tests.waiting import wait_until


def test_while_a_coroutine_blocks_the_event_loop_nothing_is_started():
    go = threading.Event()

    async def body(lease, control):
        go.wait(10)
        return Succeeded(b"{}")

    inbox = Inbox()
    pool = Pool(FakeApplication(None, body, coroutine=True), Board(8), inbox, "w.1", threads=4, coroutines=4)
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
