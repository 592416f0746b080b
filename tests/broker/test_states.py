"""What those who hold the rows of records ask about them, and where they note that they did."""

from __future__ import annotations

import pytest

from django_taskq.broker.broker import Broker

from .helpers import ERROR, RESULT, bury_one, claim, dump, lease_one, make_due, now, put, record


def test_each_record_has_a_word(broker):
    (waits,), (later,) = put(broker), put(broker, delay_ms=60_000)
    succeeded = lease_one(broker, "done")
    broker.complete(succeeded, RESULT)
    leased = lease_one(broker, "leased")
    dead, _ = bury_one(broker, "dead")
    (cancelled,) = put(broker)
    broker.cancel([cancelled])
    put(broker, key="k")
    copy = record(key="k")
    broker.enqueue([copy])
    before = dump(broker)

    ids = [waits, later, leased.id, succeeded.id, dead, cancelled, copy.id, "nobody"]
    states = ["waiting", "waiting", "leased", "succeeded", "dead", "cancelled", "TAKEN", "GONE"]
    assert broker.states(ids) == states
    assert broker.states(ids * 200) == states * 200
    assert broker.states([]) == []
    assert dump(broker) == before


@pytest.mark.leaves_keys
@pytest.mark.parametrize("place", ["ready", "scheduled", "leased", "dead"])
def test_what_is_in_no_set_is_lost(broker, place):
    ids = {"ready": put(broker, queue="ready")[0], "scheduled": put(broker, queue="scheduled", delay_ms=60_000)[0]}
    ids |= {"leased": lease_one(broker, "leased").id, "dead": bury_one(broker, "dead")[0]}

    broker.client.delete(getattr(broker.keys, place)(place))

    found = dict(zip(ids, broker.states([*ids.values()]), strict=True))
    assert [name for name, word in found.items() if word == "LOST"] == [place]


def test_what_is_left_of_a_record_without_a_body_goes_by_itself(broker):
    lease = lease_one(broker)
    broker.retry(lease, 0, ERROR)
    broker.client.delete(broker.keys.task(lease.id))
    assert broker.states([lease.id]) == ["BODILESS"]

    claim(broker)
    assert broker.states([lease.id]) == ["BODILESS"]
    broker.client.delete(broker.keys.run(lease.id))  # as its TTL does
    assert broker.states([lease.id]) == ["GONE"]


def test_what_is_left_without_a_body_and_a_place_goes_within_a_minute(broker):
    lease = lease_one(broker)
    broker.retry(lease, 0, ERROR)
    keys = broker.keys
    broker.client.delete(keys.task(lease.id), keys.ready(lease.queue), keys.scheduled(lease.queue))

    assert broker.states([lease.id]) == ["BODILESS"]
    left = [broker.client.pttl(key) for key in (keys.run(lease.id), keys.log(lease.id))]
    assert all(0 < ttl <= 60_000 for ttl in left)

    broker.client.pexpire(keys.run(lease.id), 5_000)
    assert broker.states([lease.id]) == ["BODILESS"]
    assert broker.client.pttl(keys.run(lease.id)) <= 5_000


def test_a_strange_key_is_told_from_none(broker):
    broker.client.rpush(broker.keys.task("strange"), "x")
    broker.client.pexpire(broker.keys.task("strange"), 60_000)

    assert broker.states(["strange"]) == ["BODILESS"]


@pytest.mark.leaves_keys
@pytest.mark.parametrize("place", ["ready", "leased", "dead"])
def test_a_set_of_a_wrong_type_hides_no_other_record(broker, place):
    record_id = {
        "ready": lambda: put(broker)[0],
        "leased": lambda: lease_one(broker).id,
        "dead": lambda: bury_one(broker)[0],
    }
    strange, (sound,) = record_id[place](), put(broker, queue="sound")
    broker.client.delete(getattr(broker.keys, place)("q"))
    broker.client.set(getattr(broker.keys, place)("q"), "x")

    words = broker.states([strange, sound])

    assert words == [{"ready": "waiting"}.get(place, place), "waiting"]


def test_a_push_heals_what_is_lost_at_its_time(broker):
    (due,), (later,) = put(broker), put(broker, delay_ms=60_000)
    for place in ("ready", "scheduled"):
        broker.client.delete(getattr(broker.keys, place)("q"))
    at = now(broker) + 30_000
    broker.enqueue([record(id=due), record(id=later, at_ms=at)])

    assert broker.states([due, later]) == ["waiting", "waiting"]
    assert broker.client.zrange(broker.keys.scheduled("q"), 0, -1, withscores=True) == [(later.encode(), at)]
    make_due(broker, later)


def test_a_mark_is_noted_only_where_the_one_that_was_seen_still_is(broker):
    assert broker.repaired().marks == {}
    assert broker.repaired("default", "", "a").marks == {"default": "a"}
    assert broker.repaired("default", "", "b").marks == {"default": "a"}
    assert broker.repaired("other", "a", "b").marks == {"default": "a"}
    assert broker.repaired("default", "a", "c").marks == {"default": "c"}
    assert broker.repaired("é:{x}", "", "d").marks == {"default": "c", "é:{x}": "d"}
    assert broker.repaired().marks == {"default": "c", "é:{x}": "d"}


def test_a_server_has_an_id_until_it_restarts(broker, server):
    found = broker.repaired()

    assert abs(found.now - now(broker)) < 10_000
    assert found.server_id == broker.repaired().server_id
    if server.real:
        assert found.server_id == server.client.info("server")["run_id"]


def test_where_info_is_refused_only_what_was_noted_counts(server):
    if not server.real:
        assert server.broker().repaired().server_id == "?"
        return
    server.client.execute_command("ACL", "SETUSER", "shy", "on", ">p", "~*", "+@all", "-info")
    try:
        client = server.open_client()
        client.execute_command("AUTH", "shy", "p")
        shy = Broker(client)

        assert shy.repaired().server_id == "?"
        assert shy.repaired("default", "", "a").marks == {"default": "a"}
    finally:
        server.client.execute_command("ACL", "DELUSER", "shy")
