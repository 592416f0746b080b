"""C54: queue, worker and key names that would collide with keys of the queue; one shared rule refuses them."""

from __future__ import annotations

import pytest

from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import InvalidName
from tests.broker.helpers import claim, claim_ids, dump, put, record, request

WRONG = ["", "default:leases", "a}b", "{a", "*", "a\nb", "a\0b", "\x7f", "\x85", "\ud800", None, 5, b"q"]
BAD = [*WRONG, "x" * 101, "ü" * 51]
GOOD = ["dead", "dlq", "queues", "ready", "wake", "ü" * 50, "x" * 100, "a b", "-", "a.b/c", "0", "日本", "'\"\\"]


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_c54_a_bad_queue_name_is_refused_by_every_call_that_takes_one(broker, name):
    for call in (
        lambda: broker.enqueue([record(queue=name)]),
        lambda: broker.claim(request(queues=["q", name])),
        lambda: broker.expired([name]),
        lambda: broker.wait([name], 0.01),
        lambda: broker.arm(name),
    ):
        with pytest.raises(InvalidName):
            call()
    assert dump(broker) == {}


@pytest.mark.parametrize("name", [*WRONG, "with space", "x" * 110, "ü" * 55], ids=ascii)
def test_c54_a_bad_worker_name_is_refused(broker, name):
    for call in (lambda: broker.heartbeat(name, {"a": 1}, 1000), lambda: broker.claim(request(child=name))):
        with pytest.raises(InvalidName):
            call()
    assert dump(broker) == {}


def test_c54_a_child_s_id_is_its_worker_s_name_and_nine_bytes(broker):
    (record_id,) = put(broker)
    broker.heartbeat("x" * 100, {"a": 1}, 1000)
    assert claim_ids(broker, child="x" * 100 + ".12345678") == [record_id]


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_c54_a_bad_namespace_is_refused(broker, name):
    with pytest.raises(InvalidName):
        Broker(broker.client, name)


@pytest.mark.parametrize("record_id", [*BAD, "a b", "../x", "ü", "x" * 64, "a-b", "alias x"], ids=ascii)
def test_c54_a_bad_id_is_refused(broker, record_id):
    with pytest.raises(InvalidName):
        broker.enqueue([record(id=record_id)])
    assert dump(broker) == {}


@pytest.mark.parametrize("key", ["", "a\nb", "k" * 256, "\ud800", 5], ids=ascii)
def test_c54_a_bad_idempotency_key_is_refused(broker, key):
    with pytest.raises(InvalidName):
        broker.enqueue([record(key=key)])
    assert dump(broker) == {}


@pytest.mark.parametrize("alias", ["", "a\nb", "x" * 101], ids=ascii)
def test_c54_a_bad_database_alias_is_refused(broker, alias):
    with pytest.raises(InvalidName):
        broker.enqueue([record(record_alias=alias)])
    assert dump(broker) == {}


@pytest.mark.parametrize("name", GOOD)
def test_c54_a_name_of_a_key_s_part_is_a_queue_like_any_other(broker, name):
    (record_id,) = put(broker, queue=name)
    (plain,) = put(broker, queue="q")
    assert broker.wait([name], 0.01) == name
    assert claim_ids(broker, 5, queues=[name]) == [record_id]
    assert claim_ids(broker, 5, queues=["q"]) == [plain]


def test_c54_every_key_is_in_the_namespace(broker):
    for name in GOOD:
        put(broker, queue=name, key="{other}:" + name)
        (lease,) = claim(broker, queues=[name], child="-").leases
        broker.bury(lease, b"{}")
    broker.heartbeat("-", {"a": 1}, 1000)
    assert {key.split(b":")[0] for key in dump(broker)} == {b"{taskq}"}


def test_two_namespaces_on_one_server_know_nothing_of_each_other(server):
    one, other = server.broker("one"), server.broker("other")
    (record_id,) = put(one, key="k")
    assert claim_ids(other) == []
    assert other.cancel([record_id]) == ["MISSING"]
    put(other, key="k")
    assert claim_ids(one, 5) == [record_id]
