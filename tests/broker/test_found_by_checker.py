"""Interleavings that the random checker found, each as short as it goes."""

from __future__ import annotations

from tests.broker.helpers import HOUR, claim_ids, make_due, places, record


def test_a_duplicate_that_lost_its_body_is_not_claimed_as_an_alias(broker):
    duplicate = record(key="k", delay_ms=HOUR)
    broker.enqueue([duplicate])
    broker.client.delete(broker.keys.task(duplicate.id))
    holder = record(key="k")
    assert broker.enqueue([holder])[0].word == "STORED"
    make_due(broker, duplicate.id)
    assert broker.enqueue([duplicate])[0].word == "TAKEN"
    assert claim_ids(broker, 5) == [holder.id]
    assert places(broker, duplicate.id) == []
