"""A wait is bounded, and costs no marker."""

from __future__ import annotations

import threading
import time

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from tests.broker.helpers import claim, put
from tests.waiting import SLACK, wait_until


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(clients, "SOCKET_TIMEOUT", 0.5)
    monkeypatch.setattr(clients, "LONGEST_WAIT", 0.3)
    yield
    clients.close_all()


@pytest.mark.usefixtures("short")
def test_a_wait_ends_by_itself_before_its_socket_gives_up(redis_url, monkeypatch):
    monkeypatch.setattr(clients, "SOCKET_TIMEOUT", 3)
    broker = Broker.from_url(redis_url)
    begun = time.monotonic()
    assert broker.wait(["q"], 60) is None
    assert 0.25 < time.monotonic() - begun < 2


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("seconds", [0, -1, 0.001])
def test_no_wait_is_for_ever(redis_url, seconds):
    begun = time.monotonic()
    assert Broker.from_url(redis_url).wait(["q"], seconds) is None
    assert time.monotonic() - begun < SLACK


@pytest.mark.usefixtures("short")
def test_a_wait_at_a_server_that_hangs_ends(new_server):
    server = new_server()
    broker = Broker.from_url(server.unix_url)
    broker.wait(["q"], 0.01)
    server.pause()
    begun = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        broker.wait(["q"], 60)
    assert time.monotonic() - begun < 3
    server.resume()


@pytest.mark.usefixtures("short")
def test_a_wait_that_gave_up_takes_no_marker_when_the_server_goes_on(new_server):
    server = new_server()
    broker = Broker.from_url(server.unix_url)
    broker.wait(["q"], 0.01)
    server.pause()
    with pytest.raises(BrokerUnavailable):
        broker.wait(["q"], 60)
    server.resume()
    with server.client() as client:
        wait_until(lambda: client.info("clients")["blocked_clients"] == 0)
        put(Broker(client))
    assert broker.wait(["q"], 1) == "q"


def test_a_waiting_call_holds_up_no_other(redis_url):
    broker = Broker.from_url(redis_url)
    woken = []
    waiting = threading.Thread(target=lambda: woken.append(broker.wait(["q"], 5)))
    waiting.start()
    wait_until(lambda: broker.client.info("clients")["blocked_clients"] == 1)
    put(broker)
    waiting.join(2)
    assert woken == ["q"]
    clients.close_all()


def test_a_waiting_worker_is_woken_by_each_of_its_queues(redis_url):
    broker = Broker.from_url(redis_url)
    for queue in ("a", "b"):
        woken = []
        waiting = threading.Thread(target=lambda woken=woken: woken.append(broker.wait(["a", "b"], 5)))
        waiting.start()
        wait_until(lambda: broker.client.info("clients")["blocked_clients"] == 1)
        put(broker, queue=queue)
        waiting.join(2)
        assert woken == [queue]
        claim(broker, queues=[queue])
    clients.close_all()
