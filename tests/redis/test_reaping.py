"""C07: one clock in a reap pass, so that nothing that lapses during it falls between two moments."""

from __future__ import annotations

import threading

import pytest

from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from tests.broker.helpers import ERROR, HOUR, claim, now, put


@pytest.mark.parametrize("reapers", [1, 2])
def test_c07_leases_that_lapse_during_back_to_back_passes_are_all_reaped(redis_server, reapers):
    brokers = [Broker(redis_server.client()) for _ in range(reapers)]
    broker = brokers[0]
    count = 2000 // reapers
    put(broker, count)
    leases = claim(broker, 1000).leases + claim(broker, 1000).leases
    start = now(broker)
    ends = {lease.id: start + index for index, lease in enumerate(leases)}  # one a millisecond
    broker.client.zadd(broker.keys.leased("q"), ends)
    words: list[str] = []
    early: list[str] = []

    def reap(own):
        while own.client.zcard(own.keys.leased("q")):
            seen = own.expired(["q"], 50)
            moment = now(own)
            early.extend(lease.id for lease in seen.leases if ends[lease.id] > moment)
            for lease in seen.leases:
                if ends[lease.id] % 2:
                    words.append(own.retry(lease, HOUR, ERROR, lapsed=True))
                else:
                    words.append(own.bury(lease, ERROR, lapsed=True))

    threads = [threading.Thread(target=reap, args=[own]) for own in brokers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert early == []
    assert words.count("DONE") == count
    assert set(words) <= {"DONE", "ALREADY", "LEASE_LOST"}
    found = Inspector(broker).counts()["q"]
    assert (found.leased, found.scheduled + found.dead) == (0, count)
    placed = {one for place in ("scheduled", "dead") for one, _ in Inspector(broker).listing("q", place)}
    assert placed == set(ends)
    for own in brokers:
        own.client.close()
