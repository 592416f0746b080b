"""Many queues as one listing, read a page at a time."""

from __future__ import annotations

import random

import pytest

from django_taskq.broker.listing import MergedListing, oldest_first

# Ids without records: only the sets are looked at.
pytestmark = pytest.mark.leaves_keys("the sets are filled without records")


def fill(broker, scores):
    """Fill the dead letters of queues from lists of scores; return all as (score, queue, id)."""
    entries = []
    for queue, values in scores.items():
        for number, score in enumerate(values):
            entries.append((score, queue, f"{queue}{number:05}"))
    for score, queue, record_id in entries:
        broker.client.zadd(broker.keys.dead(queue), {record_id: score})
    return entries


def test_pages_are_merged_by_score(broker):
    fill(broker, {"a": [1, 4], "b": [2, 3], "c": []})
    listing = MergedListing(broker, "dead", ["a", "b", "c"])
    assert len(listing) == 4
    assert [entry.score for entry in listing.page(0, 3)] == [1, 2, 3]
    assert [(entry.id, entry.queue) for entry in listing.page(3, 3)] == [("a00001", "a")]


def test_descending_pages_are_merged_by_score(broker):
    fill(broker, {"a": [1, 4], "b": [2, 3]})
    listing = MergedListing(broker, "dead", ["a", "b"], descending=True)
    assert [entry.score for entry in listing.page(0, 10)] == [4, 3, 2, 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("queues", [["a"], ["a", "b", "c"]])
def test_a_far_page_continues_where_the_page_before_it_ended(broker, monkeypatch, descending, queues):
    monkeypatch.setattr("django_taskq.broker.listing._NEAR", 3)
    random.seed(7)
    entries = fill(broker, {queue: [random.randint(10, 60) for _ in range(40)] for queue in queues})
    listing = MergedListing(broker, "dead", queues, descending=descending)
    walked = [entry for page in listing.pages(0, 7) for entry in page]
    assert len(walked) == len(entries)
    assert {(entry.score, entry.queue, entry.id) for entry in walked} == set(entries)
    scores = [entry.score for entry in walked]
    assert scores == sorted(scores, reverse=descending)
    assert listing.page(13, 5) == walked[13:18]


def test_a_position_counts_what_stands_before_a_score(broker):
    fill(broker, {"a": [1, 4, 4], "b": [2, 3]})
    assert MergedListing(broker, "dead", ["a", "b"]).position(4) == 3
    assert MergedListing(broker, "dead", ["a", "b"], descending=True).position(3) == 2


def test_a_page_behind_the_end_is_empty(broker):
    fill(broker, {"a": [1], "b": [2]})
    listing = MergedListing(broker, "dead", ["a", "b"])
    assert listing.page(2, 10) == []
    assert listing.page(10_000, 10) == []
    assert MergedListing(broker, "dead", []).page(0, 10) == []


def test_records_are_found_in_whichever_queue_they_are(broker):
    fill(broker, {"a": [1], "b": [2]})
    listing = MergedListing(broker, "dead", ["a", "b"])
    assert listing.places(["b00000", "c00000", "a00000"]) == [("b00000", "b", 2), ("a00000", "a", 1)]
    assert listing.places([]) == []


def test_walking_oldest_first_stops_at_its_bound_and_survives_removals(broker):
    entries = fill(broker, {"a": [1, 2, 2, 2, 2, 3, 9]})
    first = oldest_first(broker, "dead", "a", None, 3, 3)
    assert [entry.score for entry in first] == [1, 2, 2]
    broker.client.zrem(broker.keys.dead("a"), first[0].id, first[1].id)
    last = (first[-1].score, first[-1].id)
    rest = oldest_first(broker, "dead", "a", last, 3, 2)
    assert [(entry.score, entry.id) for entry in rest] == [(2, entries[3][2]), (2, entries[4][2])]
    assert [entry.score for entry in oldest_first(broker, "dead", "a", (2, rest[-1].id), 3, 10)] == [3]


def test_only_places_of_records_can_be_listed(broker):
    with pytest.raises(ValueError, match="place must be one of"):
        MergedListing(broker, "wake", ["a"])
