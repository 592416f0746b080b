"""C26: the server restarts and drops connections, again and again, and work goes on each time."""

from __future__ import annotations

import random

import pytest

from tests.redis.jobs import aadd, add
from tests.rules import check_rules

#: Seconds within which work must go on.
PATIENCE = 5


@pytest.mark.slow
def test_c26_work_goes_on_after_each_of_ten_restarts(own_server, start_worker, ended):
    draw = random.Random(26)
    worker = start_worker("--processes", "2", "--threads", "2", lease=2)
    ended(add.enqueue(0), timeout=30)
    children = worker.children()
    results = []
    for number in range(10):
        own_server.stop()
        own_server.start()
        # The first three come so fast that nobody has found back yet.
        if number >= 2:
            results += [draw.choice([add, aadd]).enqueue(number) for _ in range(5)]
            check_rules(ended(*results, timeout=PATIENCE))
            with own_server.client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            results += [draw.choice([add, aadd]).enqueue(number) for _ in range(5)]
            check_rules(ended(*results, timeout=PATIENCE))

    records = ended(*results)
    assert {record.state for record in records} == {"succeeded"}
    assert worker.children() == children
    assert worker.stop() == 0
