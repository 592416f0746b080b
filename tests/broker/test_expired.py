from __future__ import annotations

import pytest

from tests.broker.helpers import (
    ERROR,
    HOUR,
    MINUTE,
    claim,
    claim_ids,
    dump,
    lapse,
    lease_one,
    now,
    places,
    put,
    read,
)


def test_a_lapsed_lease_is_listed_with_what_its_reaper_needs(broker):
    lease = lease_one(broker, key="k", key_ttl_ms=MINUTE)
    lapse(broker, lease)
    (found,) = broker.expired(["q"]).leases
    assert (found.id, found.queue, found.token, found.attempt) == (lease.id, "q", lease.token, 1)
    assert found.envelope_bytes == lease.envelope_bytes
    assert found.head.key == "k"
    assert found.cancel_requested is False


def test_an_asked_cancel_is_told(broker):
    lease = lease_one(broker)
    broker.cancel([lease.id])
    lapse(broker, lease)
    assert broker.expired(["q"]).leases[0].cancel_requested is True


def test_a_lease_that_ends_now_has_lapsed_and_one_that_ends_later_has_not(broker):
    over, held = lease_one(broker), lease_one(broker)
    lapse(broker, over, ago=0)
    assert [lease.id for lease in broker.expired(["q"]).leases] == [over.id]
    assert places(broker, held.id) == ["leased"]


def test_reading_changes_nothing(broker):
    lapse(broker, lease_one(broker))
    before = dump(broker)
    broker.expired(["q"])
    assert dump(broker) == before


def test_a_lease_that_ends_later_than_in_a_day_has_lapsed(broker):
    lease, held = lease_one(broker), lease_one(broker)
    lapse(broker, lease, ago=-(24 * HOUR + MINUTE))
    lapse(broker, held, ago=-(24 * HOUR - MINUTE))
    assert [one.id for one in broker.expired(["q"]).leases] == [lease.id]


def test_the_time_until_the_next_lapse_comes_back(broker):
    lease_one(broker, queue="a")
    lapse(broker, lease_one(broker, queue="b"), ago=-5000)
    assert 0 < broker.expired(["a", "b"]).next_lapse_ms <= 5000


def test_there_is_no_next_lapse_when_nothing_is_leased(broker):
    put(broker)
    assert broker.expired(["q"]).next_lapse_ms is None


def test_lapsed_leases_come_in_pages_and_the_rest_is_due_at_once(broker):
    put(broker, 7)
    leases = claim(broker, 7).leases
    lapse(broker, *leases)
    seen = []
    for size in (3, 3, 1):
        page = broker.expired(["q"], limit=3)
        assert len(page.leases) == size
        assert (page.next_lapse_ms == 0) is (size == 3)
        seen += [lease.id for lease in page.leases]
        for lease in page.leases:
            broker.retry(lease, 0, ERROR, lapsed=True)
    assert sorted(seen) == sorted(lease.id for lease in leases)


def test_leases_that_are_passed_over_take_no_room(broker):
    leases = [lease_one(broker, queue=name) for name in ("a", "b", "a", "b")]
    lapse(broker, *leases)
    page = broker.expired(["a", "b"], limit=1, besides=[lease.id for lease in leases[:3]])
    assert [lease.id for lease in page.leases] == [leases[3].id]
    page = broker.expired(["a", "b"], limit=1, besides=[lease.id for lease in leases])
    assert (page.leases, page.next_lapse_ms) == ([], None)


def test_a_page_spans_queues(broker):
    leases = [lease_one(broker, queue=name) for name in ("a", "b", "c")]
    lapse(broker, *leases)
    page = broker.expired(["a", "b", "c"], limit=2)
    assert [lease.queue for lease in page.leases] == ["a", "b"]
    assert page.next_lapse_ms == 0


def test_a_page_holds_about_a_mebibyte(broker):
    put(broker, 5, envelope=b"x" * 400_000)
    leases = [*claim(broker, 5).leases, *claim(broker, 5).leases]
    assert len(leases) == 5
    lapse(broker, *leases)
    page = broker.expired(["q"])
    assert (len(page.leases), page.next_lapse_ms) == (3, 0)


def test_the_longest_lapsed_come_first(broker):
    late, early = lease_one(broker), lease_one(broker)
    lapse(broker, late, ago=10)
    lapse(broker, early, ago=5000)
    assert [lease.id for lease in broker.expired(["q"]).leases] == [early.id, late.id]


def test_a_lease_without_a_run_waits_again(broker):
    lease = lease_one(broker, priority=6)
    lapse(broker, lease)
    broker.client.delete(broker.keys.run(lease.id))
    assert list(broker.expired(["q"]).leases) == []
    assert places(broker, lease.id) == ["ready"]
    assert now(broker) - MINUTE < read_score(broker, lease.id) + 6 * 10**13 <= now(broker)
    assert claim_ids(broker) == [lease.id]


def read_score(broker, record_id):
    return int(broker.client.zscore(broker.keys.ready("q"), record_id))


@pytest.mark.parametrize("buried", [False, True])
def test_what_a_reaper_decided_is_a_failed_attempt(broker, buried):
    lease = lease_one(broker, child="worker.dead")
    lapse(broker, lease)
    (found,) = broker.expired(["q"]).leases
    word = broker.bury(found, ERROR, lapsed=True) if buried else broker.retry(found, MINUTE, ERROR, lapsed=True)
    assert word == "DONE"
    record = read(broker, lease.id)
    assert (record.attempts, [attempt.child for attempt in record.history]) == (1, ["worker.dead"])
    assert places(broker, lease.id) == (["dead"] if buried else ["scheduled"])
