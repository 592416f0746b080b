"""Nothing is sent twice behind our back (C34 on the broker's level), and what was sent is told from what was not."""

from __future__ import annotations

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.settlements import Retry
from tests.broker.helpers import ERROR, Held, claim, lease_one, put, read, record, request
from tests.redis.proxy import Proxy, calls_of
from tests.servers import free_port

#: Seconds for a reply: short, as some tests wait for its end, yet enough on a busy machine.
TIMEOUT = 0.8


@pytest.fixture
def proxy(redis_server, monkeypatch):
    monkeypatch.setattr(clients, "SOCKET_TIMEOUT", TIMEOUT)
    monkeypatch.setattr(clients, "LONGEST_WAIT", 0.3)
    made = Proxy(redis_server.port)
    yield made
    clients.close_all()
    made.close()


@pytest.fixture
def through(proxy):
    """Give a broker behind the proxy, made as a user's is."""
    broker = Broker(clients.connect(proxy.url, TIMEOUT), waiting=clients.connect_waiting(proxy.url))
    broker.enqueue([])
    lease_one(broker, "warm")
    broker.ping()
    return broker


@pytest.fixture
def direct(redis_server, redis_url):
    return Broker(redis_server.client())


def lose(proxy, redis_server, what, how, command="evalsha"):
    """Lose a reply; return a function that counts the executions since."""
    before = calls_of(redis_server, command)
    proxy.lose_reply_to(what, how)
    return lambda: calls_of(redis_server, command) - before


@pytest.mark.parametrize("how", ["cut", "hang"])
class TestLostReply:
    def test_c34_an_enqueue_is_executed_once_and_its_outcome_is_unknown(
        self, through, direct, proxy, redis_server, how
    ):
        put(through)
        new = record()
        executed = lose(proxy, redis_server, b"EVALSHA", how)
        with pytest.raises(BrokerUnavailable) as caught:
            through.enqueue([new])
        assert caught.value.maybe_executed
        assert executed() == 1
        assert read(direct, new.id).envelope_bytes == new.envelope

    def test_c34_sending_it_again_is_a_no_op(self, through, direct, proxy, redis_server, how):
        put(through, queue="warm")
        new = record()
        proxy.lose_reply_to(b"EVALSHA", how)
        with pytest.raises(BrokerUnavailable):
            through.enqueue([new])
        assert [answer.word for answer in through.enqueue([new])] == ["EXISTS"]
        assert Inspector(direct).counts(["q"])["q"].ready == 1

    def test_a_pipeline_is_executed_once(self, through, direct, proxy, redis_server, how):
        put(through, 2)
        (lease,) = claim(through).leases
        wanted = request()
        through.retry(Held(lease, token=1), 0, ERROR)
        executed = lose(proxy, redis_server, b"EVALSHA", how)
        with pytest.raises(BrokerUnavailable) as caught:
            through.exchange([_retry(lease)], wanted)
        assert caught.value.maybe_executed
        assert executed() == 2
        words, claimed = through.exchange([_retry(lease)], wanted)
        assert words == ["ALREADY"]
        assert [(one.attempt, len(read(direct, one.id).history)) for one in claimed.leases] == [(1, 0)]

    def test_a_wait_is_not_begun_again_and_leaves_its_record_claimable(self, through, direct, proxy, redis_server, how):
        put(direct)
        executed = lose(proxy, redis_server, b"BZPOPMIN", how, "bzpopmin")
        with pytest.raises(BrokerUnavailable) as caught:
            through.wait(["q"], 0.2)
        assert caught.value.maybe_executed
        assert executed() == 1
        assert len(claim(through).leases) == 1  # as a worker does after each reconnect

    def test_a_plain_read_is_sent_once_too(self, through, direct, proxy, redis_server, how):
        executed = lose(proxy, redis_server, b"SMEMBERS", how, "smembers")
        with pytest.raises(BrokerUnavailable):
            Inspector(through).queues()
        assert executed() == 1


def _retry(lease):
    return Retry(lease, 60_000, ERROR)


@pytest.mark.parametrize("how", ["cut", "hang"])
def test_a_reply_lost_while_a_script_is_sent_with_its_text_is_not_asked_for_again(through, proxy, redis_server, how):
    redis_server.client().script_flush()
    executed = lose(proxy, redis_server, b"EVAL\r", how, "eval")
    with pytest.raises(BrokerUnavailable) as caught:
        through.enqueue([record()])
    assert caught.value.maybe_executed
    assert executed() == 1


def test_what_could_not_connect_was_not_executed(through, direct, proxy, redis_server):
    proxy.refuse()
    proxy.cut()
    before = calls_of(redis_server, "evalsha")
    for call in (
        lambda: through.enqueue([record()]),
        lambda: through.exchange([], request()),
        lambda: through.wait(["q"], 0.1),
        through.ping,
    ):
        with pytest.raises(BrokerUnavailable) as caught:
            call()
        assert not caught.value.maybe_executed
    assert calls_of(redis_server, "evalsha") == before


def test_a_connection_that_the_server_closed_while_idle_is_replaced_unseen(redis_server):
    broker = Broker.from_url(redis_server.url)
    broker.ping()
    broker.wait(["q"], 0.01)
    with redis_server.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
    assert put(broker)
    assert broker.wait(["q"], 0.1) == "q"
    clients.close_all()


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{port}/0", "unix:///nowhere/socket"])
def test_a_server_that_is_not_there_is_told_at_once(url):
    broker = Broker.from_url(url.format(port=free_port()))
    with pytest.raises(BrokerUnavailable) as caught:
        broker.enqueue([record()])
    assert not caught.value.maybe_executed
    clients.close_all()
