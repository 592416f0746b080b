"""Invariant 8: at maxmemory new work is refused with a clear error, and work in hand ends."""

from __future__ import annotations

import contextlib

import pytest

from django_taskq.broker.exceptions import OutOfMemory
from django_taskq.broker.records import State
from django_taskq.broker.settlements import Release
from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    RESULT,
    bury_one,
    claim_ids,
    dump,
    lapse,
    lease_one,
    make_due,
    places,
    put,
    read,
    record,
    settle,
)
from tests.servers import chosen_names

pytestmark = pytest.mark.parametrize("server", [name for name in chosen_names() if name != "fakeredis"], indirect=True)


@pytest.fixture(params=["known", "unknown"])
def full(request, broker):
    """Give a context in which the memory is full, once with scripts that the server knows and once without."""

    @contextlib.contextmanager
    def full():
        if request.param == "unknown":
            broker.client.script_flush()
        broker.client.config_set("maxmemory-policy", "noeviction")
        broker.client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Exception, match="maxmemory"):
                broker.client.set("x", "y")
            yield
        finally:
            broker.client.config_set("maxmemory", 0)

    return full


@pytest.mark.parametrize("fields", [{}, {"delay_ms": HOUR}, {"key": "k"}, {"key": "taken"}])
def test_enqueue_is_refused_and_stores_nothing(broker, fields, full):
    put(broker, key="taken")
    with full():
        before = dump(broker)
        with pytest.raises(OutOfMemory, match="maxmemory"):
            broker.enqueue([record(**fields), record(**fields)])
        assert dump(broker) == before


def test_what_was_enqueued_before_is_still_known(broker, full):
    new = record()
    broker.enqueue([new])
    with full():
        assert broker.enqueue([new])[0].word == "EXISTS"


def test_claim_goes_on(broker, full):
    ready = put(broker, 3)
    (due,) = put(broker, delay_ms=HOUR)
    make_due(broker, due)
    with full():
        assert sorted(claim_ids(broker, 10)) == sorted([*ready, due])
        assert claim_ids(broker, 10) == []


def test_a_claim_that_only_wakes_another_goes_on(broker, full):
    put(broker)
    with full():
        assert claim_ids(broker, 0) == []
        assert broker.wait(["q"], 0.01) == "q"
        assert claim_ids(broker, 0) == []
        assert broker.wait(["q"], 0.01) == "q"


def test_renew_goes_on(broker, full):
    lease = lease_one(broker)
    with full():
        assert broker.renew([(lease.id, "q", lease.token)], HOUR) == ["OK"]


@pytest.mark.parametrize("kind", ["complete", "retry", "bury", "release"])
def test_settling_goes_on(broker, kind, full):
    lease = lease_one(broker, key="k", key_ttl_ms=HOUR)
    with full():
        assert settle(broker, kind, lease) == "DONE"
        assert settle(broker, kind, lease) == "ALREADY"


@pytest.mark.parametrize("kind", ["retry", "bury", "release"])
def test_ending_what_was_asked_to_cancel_goes_on(broker, kind, full):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    with full():
        assert settle(broker, kind, lease) == "CANCELLED"


def test_large_results_are_still_kept(broker, full):
    lease = lease_one(broker)
    with full():
        assert broker.complete(lease, b'{"result":"' + b"x" * 100_000 + b'"}') == "DONE"
        assert len(read(broker, lease.id).result) == 100_000


def test_release_with_a_delay_floor_and_words_goes_on(broker, full):
    lease = lease_one(broker)
    with full():
        words, _ = broker.exchange([Release(lease, MINUTE, lease.token + 5, keep=True, unknown=True)], None)
        assert words == ["DONE"]


def test_reaping_goes_on(broker, full):
    lapsed, lost = lease_one(broker), lease_one(broker)
    lapse(broker, lapsed, lost)
    broker.client.delete(broker.keys.run(lost.id))
    with full():
        (found,) = broker.expired(["q"]).leases
        assert broker.retry(found, 0, ERROR, lapsed=True) == "DONE"
        assert places(broker, lost.id) == ["ready"]


def test_cancel_goes_on(broker, full):
    lease = lease_one(broker)
    (waiting,) = put(broker)
    (unplaced,) = put(broker)
    broker.client.zrem(broker.keys.ready("q"), unplaced)
    with full():
        assert broker.cancel([lease.id]) == ["ASKED"]
        assert broker.cancel([waiting]) == ["DONE"]
        assert broker.cancel([unplaced]) == ["DONE"]


def test_requeue_discard_and_promote_go_on(broker, full):
    first, second = bury_one(broker, key="k"), bury_one(broker)
    (scheduled,) = put(broker, delay_ms=HOUR)
    with full():
        assert broker.requeue([(*first, 0)]) == ["DONE"]
        assert broker.discard([second]) == ["DONE"]
        assert broker.promote(scheduled) == "DONE"
        assert read(broker, second[0]).state is State.CANCELLED


def test_orphans_are_taken_out(broker, full):
    (record_id,) = put(broker)
    broker.client.delete(broker.keys.task(record_id))
    lease = lease_one(broker, "b")
    broker.client.delete(broker.keys.task(lease.id))
    with full():
        assert claim_ids(broker) == []
        assert places(broker, record_id) == []
        assert broker.complete(lease, RESULT) == "ORPHANED"


def test_a_marker_given_back_without_a_claim_is_refused_clearly(broker, full):
    with full(), pytest.raises(OutOfMemory):
        broker.arm("q")
