"""How many commands a task costs the server, which is what bounds a queue's throughput."""

from __future__ import annotations

import pytest

from django_taskq.broker.broker import Broker
from django_taskq.broker.settlements import Complete
from tests.broker.helpers import RESULT, claim, record

COUNT = 200


@pytest.fixture
def broker(redis_server):
    broker = Broker(redis_server.client())
    yield broker
    broker.client.flushall()
    broker.client.close()


def commands(broker, action):
    """Return what an action returns, and the commands that it cost for each of its records, those of scripts too."""
    broker.client.config_resetstat()
    returned = action()
    counts = broker.client.info("commandstats")
    return returned, sum(one["calls"] for name, one in counts.items() if name != "cmdstat_config|resetstat") / COUNT


def test_a_task_costs_the_server_few_commands(broker):
    records = [record() for _ in range(COUNT)]
    broker.enqueue([record()])

    _, enqueuing = commands(broker, lambda: broker.enqueue(records))
    claimed, claiming = commands(broker, lambda: claim(broker, COUNT))
    _, completing = commands(broker, lambda: broker.exchange([Complete(one, RESULT) for one in claimed.leases], None))

    assert len(claimed.leases) == COUNT
    # EXISTS, SET, ZREM, ZADD; GET, HSET; HMGET, GETRANGE, ZREM, HSET, RPUSH, three of PEXPIREAT; and a few a call.
    assert enqueuing < 4.1
    assert claiming < 2.2
    assert completing < 8.1
