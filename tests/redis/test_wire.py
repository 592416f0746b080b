"""Scripts go over connections of their own: never a stale one, never another's answer, one read for many scripts."""

from __future__ import annotations

import os
import signal
import socket

import pytest
from redis import exceptions as errors
from redis.connection import DefaultParser

from django_taskq.broker import client, scripts, wire
from django_taskq.broker.broker import Broker
from django_taskq.broker.enqueueing import PAGE_RECORDS
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.exceptions import BrokerUnavailable, InvalidName, OutOfMemory
from django_taskq.broker.ids import new_id
from django_taskq.broker.records import Claim, NewRecord
from django_taskq.broker.scripts import Call
from django_taskq.broker.settlements import Complete
from tests.servers import free_port


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


def test_signals_that_come_while_an_answer_is_awaited_change_nothing(new_server, fresh):
    server = new_server()
    broker = fresh(server.unix_url)
    broker.enqueue([a_record()])
    came = []

    def note(number, frame):
        came.append(number)
        if len(came) == 3:
            server.resume()

    before = signal.signal(signal.SIGALRM, note)
    server.pause()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        (enqueued,) = broker.enqueue([a_record()])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert enqueued.word == "STORED"
    assert len(came) >= 3


class TestTimeouts:
    """The kernel bounds each wait of a plain socket; any other keeps the timeout that it has."""

    @pytest.fixture
    def pair(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(0.25)
            yield ours, theirs

    def test_a_plain_socket_blocks_no_longer_than_its_timeout_was(self, pair):
        ours, _ = pair

        wire._leave_timeouts_to_kernel(ours)

        assert ours.gettimeout() is None
        with pytest.raises(BlockingIOError):
            ours.recv(1)
        with pytest.raises(BlockingIOError):
            ours.sendall(bytes(2**24))

    def test_one_that_must_never_block_keeps_its_timeout(self, pair, monkeypatch):
        ours, _ = pair
        monkeypatch.setattr(os, "get_blocking", lambda descriptor: False)

        wire._leave_timeouts_to_kernel(ours)

        assert ours.gettimeout() == 0.25

    def test_one_of_another_kind_keeps_its_timeout(self, pair):
        class Green(socket.socket): ...

        with Green(fileno=os.dup(pair[0].fileno())) as green:
            green.settimeout(0.25)

            wire._leave_timeouts_to_kernel(green)

            assert green.gettimeout() == 0.25


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


class TestPages:
    """Pages of records follow each other without waiting."""

    @pytest.fixture
    def records(self):
        return [a_record() for _ in range(5 * PAGE_RECORDS + 1)]

    def test_some_are_sent_before_the_reply_to_the_first_is_read(self, new_server, fresh, records, monkeypatch):
        done = []
        for name in ("write", "read"):
            method = getattr(wire._Line, name)
            monkeypatch.setattr(
                wire._Line, name, lambda *given, name=name, method=method: done.append(name) or method(*given)
            )
        broker = fresh(new_server().unix_url)
        broker.enqueue([a_record()])  # The script is known now.
        del done[:]

        answers = broker.enqueue(records)

        assert [answer.id for answer in answers] == [record.id for record in records]
        assert done == [*["write"] * 4, *["read", "write"] * 2, *["read"] * 4]

    def test_a_server_that_forgot_the_script_gets_every_page_once(self, new_server, fresh, records):
        server = new_server()
        broker = fresh(server.unix_url)
        broker.enqueue([a_record()])
        with server.client() as other:
            other.script_flush()

        answers = broker.enqueue(records)

        assert [(answer.word, answer.id) for answer in answers] == [("STORED", record.id) for record in records]

    def test_after_an_error_no_more_pages_are_sent_and_answers_still_fit(self, new_server, fresh, records):
        server = new_server()
        broker = fresh(server.unix_url)
        broker.enqueue([a_record()])
        with server.client() as other:
            other.config_set("maxmemory", 1)
            pages = list(broker.enqueue_pages(records))
            other.config_set("maxmemory", 0)

        assert [type(page) for page in pages] == [OutOfMemory] * 4
        assert [answer.id for answer in broker.enqueue(records[:1])] == [records[0].id]

    def test_who_stops_listening_leaves_no_answer_to_others(self, new_server, fresh, records):
        broker = fresh(new_server().unix_url)
        broker.enqueue([a_record()])
        pages = broker.enqueue_pages(records)
        next(pages)
        pages.close()

        assert [answer.id for answer in broker.enqueue(records[-1:])] == [records[-1].id]

    def test_a_page_without_an_answer_may_have_been_stored(self, new_server, records):
        server = new_server()
        made = client._make(client.parse_url(server.unix_url), 0.2)
        broker = Broker(made)
        broker.enqueue([a_record()])
        server.pause()
        pages = list(broker.enqueue_pages(records))
        server.resume()

        assert [(type(page), page.maybe_executed) for page in pages] == [(BrokerUnavailable, True)]
        assert [answer.id for answer in broker.enqueue(records[-1:])] == [records[-1].id]
        made.close()

    def test_a_refusal_that_ends_the_connection_leaves_open_what_became_of_the_pages_after_it(self):
        class Client:
            def stream(self, commands):
                for _ in range(on_their_way):
                    next(commands)
                raise errors.BusyLoadingError("Redis is loading the dataset in memory")

        calls = [Call("enqueue", ())] * 3
        outcomes = {}
        for on_their_way in (1, 2):
            (outcomes[on_their_way],) = scripts.stream(Client(), "q", calls)

        assert {count: page.maybe_executed for count, page in outcomes.items()} == {1: False, 2: True}

    def test_a_server_that_is_loading_answers_each_page(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            read = wire._reading(ours, DefaultParser(65536))
            theirs.sendall(
                b"-LOADING Redis is loading the dataset in memory\r\n+OK\r\n-ERR max number of clients reached\r\n"
            )

            assert isinstance(read(), errors.BusyLoadingError)
            assert read() == b"OK"
            with pytest.raises(errors.ConnectionError):
                read()

    def test_none_is_stored_in_a_cluster_that_cannot_be_reached(self, fresh, records):
        (page,) = fresh(f"redis+cluster://127.0.0.1:{free_port()}").enqueue_pages(records)

        assert (type(page), page.maybe_executed) == (BrokerUnavailable, False)

    def test_a_name_that_is_refused_keeps_all_pages_back(self, new_server, fresh, records):
        server = new_server()
        broker = fresh(server.unix_url)
        with pytest.raises(InvalidName):
            broker.enqueue([*records, records[0]._replace(queue="a:b")])
        with server.client() as other:
            assert other.dbsize() == 0
