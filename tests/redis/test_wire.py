"""Scripts go over connections of their own: never a stale one, never another's answer, one read for many scripts."""

from __future__ import annotations

import pytest

from django_taskq.broker import client, wire
from django_taskq.broker.broker import Broker
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.ids import new_id
from django_taskq.broker.records import Claim, NewRecord
from django_taskq.broker.settlements import Complete


@pytest.fixture
def fresh():
    """Give a function that connects to a server by its URL; its clients are closed after the test."""
    yield Broker.from_url
    client.close_all()


def a_record():
    return NewRecord(new_id(), "default", Envelope("task").to_bytes())


def reads(server):
    with server.client() as other:
        return other.info("stats")["total_reads_processed"]


def test_an_idle_connection_that_the_server_closed_is_replaced_before_anything_is_sent(new_server, fresh):
    server = new_server()
    broker = fresh(server.unix_url)
    broker.enqueue([a_record()])

    server.stop()
    server.start()

    assert [enqueued.word for enqueued in broker.enqueue([a_record()])] == ["STORED"]


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one(new_server):
    server = new_server()
    made = client._make(client.parse_url(server.unix_url), 0.2)
    broker = Broker(made)
    first, second = a_record(), a_record()
    broker.enqueue([a_record()])

    server.pause()
    with pytest.raises(BrokerUnavailable) as raised:
        broker.enqueue([first])
    server.resume()

    assert raised.value.maybe_executed
    assert [enqueued.id for enqueued in broker.enqueue([second])] == [second.id]
    made.close()


def test_settling_and_claiming_is_one_read_of_the_server(new_server, fresh):
    server = new_server()
    broker = fresh(server.unix_url)
    broker.enqueue([a_record() for _ in range(200)])
    leases = broker.claim(Claim("w.1", 1, 100, 10_000, ("default",))).leases
    broker.exchange([Complete(leases[0], b"{}")], None)

    asking, before = reads(server), reads(server)
    settled = [Complete(lease, b"{}") for lease in leases[1:40]]
    words, claimed = broker.exchange(settled, Claim("w.1", 2, 40, 10_000, ("default",)))
    after = reads(server)

    assert set(words) == {"DONE"}
    assert len(claimed.leases) == 40
    assert after - before == 1 + (before - asking)


def test_a_command_is_packed_alike_with_and_without_hiredis():
    command = ("EVALSHA", "f00", 1, "{é}:queues", b"\x00\xff", -7, "", "grüße")

    assert wire.packed(command) == wire.pack(command)


def test_without_hiredis_commands_run_too(new_server, fresh, monkeypatch):
    monkeypatch.setattr(wire, "pack", wire.packed)
    assert [one.word for one in fresh(new_server().unix_url).enqueue([a_record()])] == ["STORED"]
