"""C43: what a claim, a finish and a look at lapsed leases cost doesn't grow with what else is in Redis."""

from __future__ import annotations

import statistics

import pytest

from django_taskq.broker.broker import Broker
from tests.broker.helpers import HOUR, claim, put, record
from tests.redis.meter import Meter

pytestmark = [pytest.mark.leaves_keys(reason="hundreds of thousands of foreign keys"), pytest.mark.timeout(120)]
ROUNDS = 300


def round_costs(broker, meter):
    """Return for each call the costs of its rounds, in ms of the server's processor time."""
    costs = {"claim": [], "complete": [], "expired": []}
    for _ in range(ROUNDS):
        put(broker, priority=100)
        with meter.measured() as claiming:
            (lease,) = claim(broker, lease_ms=HOUR).leases
        with meter.measured() as finishing:
            assert broker.complete(lease, b'{"result":1}') == "DONE"
        with meter.measured() as looking:
            broker.expired(["q"])
        for name, measured in zip(costs, (claiming, finishing, looking), strict=True):
            costs[name] += measured
    return costs


def p99(values):
    return statistics.quantiles(values, n=100)[98]


def test_c43_costs_stay_within_twice_those_on_an_empty_server(redis_server):
    broker = Broker(redis_server.client())
    meter = Meter(broker, redis_server.process.pid)
    round_costs(broker, meter)
    empty = round_costs(broker, meter)

    broker.client.execute_command("DEBUG", "POPULATE", 200_000, "unrelated", 10)
    broker.enqueue([record() for _ in range(52_000)])
    for _ in range(2):
        claim(broker, 1000, lease_ms=HOUR)
    assert broker.client.dbsize() > 250_000
    # Another process takes caches away now and then; what grows with the number of tasks does so each time.
    crowded = [round_costs(broker, meter) for _ in range(3)]

    for name, values in empty.items():
        assert min(statistics.median(each[name]) for each in crowded) < 2 * statistics.median(values), name
        assert min(p99(each[name]) for each in crowded) < 2 * p99(values) + 0.2, name
        assert min(max(each[name]) for each in crowded) < 10, name
    broker.client.flushall()
    broker.client.close()
