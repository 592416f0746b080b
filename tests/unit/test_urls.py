from __future__ import annotations

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker.client import check_url
from django_taskq.broker.exceptions import ConfigurationError
from django_taskq.broker.urls import parse_url

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "node", "options"),
    [
        ("redis://", ("localhost", 6379), {}),
        ("redis://host", ("host", 6379), {}),
        ("redis://host:1234/5", ("host", 1234), {"db": 5}),
        ("redis://host/?db=7", ("host", 6379), {"db": 7}),
        ("redis://[::1]:7000/0", ("::1", 7000), {"db": 0}),
        ("redis://:p%40ss@10.0.0.1", ("10.0.0.1", 6379), {"password": "p@ss"}),
        ("redis://user:p%3Ass%23@h", ("h", 6379), {"username": "user", "password": "p:ss#"}),
        ("redis://user:a:b@h", ("h", 6379), {"username": "user", "password": "a:b"}),
        ("redis://user:a@b@h", ("h", 6379), {"username": "user", "password": "a@b"}),
        ("rediss://h?ssl_check_hostname=false", ("h", 6379), {"ssl_check_hostname": False}),
        ("redis://h?client_name=a%20b&max_connections=5", ("h", 6379), {"client_name": "a b", "max_connections": 5}),
    ],
)  # fmt: skip
def test_a_url_of_one_server(url, node, options):
    address = parse_url(url)
    assert (address.nodes, address.options) == ([node], options)
    assert address.tls is url.startswith("rediss")


def test_a_url_of_a_socket():
    address = parse_url("unix://user:pw@/run/my%20redis.sock?db=3")
    assert address.options == {"path": "/run/my redis.sock", "db": 3, "username": "user", "password": "pw"}


def test_a_url_of_sentinels():
    address = parse_url("sentinel://user:pw@a:1,b,[::2]:3/mymaster/4?sentinel_password=sp&ssl=true")
    assert address.nodes == [("a", 1), ("b", 26379), ("::2", 3)]
    assert (address.service, address.tls) == ("mymaster", True)
    assert address.options == {"username": "user", "password": "pw", "db": 4}
    assert address.sentinel == {"password": "sp"}


def test_a_url_of_a_cluster():
    address = parse_url("redis+cluster://:pw@a:7000,b:7001")
    assert (address.nodes, address.options, address.tls) == ([("a", 7000), ("b", 7001)], {"password": "pw"}, False)


#: Wrong URLs, and what their messages say.
WRONG = {
    "": "start with one of redis://",
    "localhost:6379": "start with one of redis://",
    "http://h": "not 'http'",
    "REDIS//x": "start with",
    "redis://h:port": "host:port",
    "redis://h:65536": "host:port",
    "redis://h:6379:1": "host:port",
    "redis://[::1": "host",
    "redis://a,b": "host:port",
    "redis://h/abc": "number of a database",
    "redis://h/-1": "number of a database",
    "redis://h/1/2": "number of a database",
    "redis://h?db=x": "'db' has a wrong value",
    "redis://h?db=": "'db' has a wrong value",
    "redis://h?db": "name=value",
    "redis://h#x": "%23",
    "redis://h?colour=red": "can't set 'colour'; it takes client_name, db",
    "redis://h?ssl_ca_certs=x": "can't set 'ssl_ca_certs'",
    "redis://h?sentinel_password=x": "can't set 'sentinel_password'",
    "redis://:a?secret=b@h": "isn't name=value; in a password, write %3F",
    "rediss://h?ssl_check_hostname=maybe": "'ssl_check_hostname' has a wrong value",
    "unix://": "unix:///run/redis.sock",
    "unix://tmp/redis.sock": "unix:///run/redis.sock",
    "sentinel://h": "names the service",
    "sentinel://h/": "names the service",
    "sentinel://h,/m": "host:port",
    "sentinel:///m": "host:port",
    "sentinel://h/m/x": "number of a database",
    "redis+cluster://h/1": "only database 0",
    "redis+cluster://h?db=1": "only database 0",
    "redis+cluster://": "host:port",
}


@pytest.mark.parametrize("url", WRONG)
def test_what_is_wrong_with_a_url_is_said(url):
    with pytest.raises(ConfigurationError, match="The Redis URL") as caught:
        check_url(url)
    assert WRONG[url] in str(caught.value)


@pytest.mark.parametrize(
    "name", ["retry", "retry_on_timeout", "socket_timeout", "decode_responses", "protocol", "timeout"]
)
def test_what_replies_and_waits_rely_on_cannot_be_set(name):
    with pytest.raises(ConfigurationError, match=f"can't set '{name}'"):
        check_url(f"redis://h?{name}=1")


@pytest.mark.parametrize("value", [None, 5, b"redis://h", ["redis://h"]])
def test_a_url_is_a_string(value):
    with pytest.raises(ConfigurationError, match="must be a string"):
        check_url(value)


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}",
        f"redis://user:{SECRET}",
        f"redis://:{SECRET}#x@host",
        f"redis://:a#{SECRET}@host",
        f"redis://:a/{SECRET}@host",
        f"redis://:1/{SECRET}@host/0",
        f"redis://:1?{SECRET}@host/0",
        f"redis://:{SECRET}@host:port",
        f"redis://:{SECRET}@host/x",
        f"redis://:{SECRET}@[::1",
        f"redis://:{SECRET}@h?db=x",
        f"redis://h?password={SECRET}&db=x",
        f"redis://h?db={SECRET}",
        f"sentinel://:{SECRET}@h",
        f"sentinel://h?sentinel_password={SECRET}",
        f"redis+cluster://:{SECRET}@h,",
        f"unix://:{SECRET}@h",
        f"user:{SECRET}@host",
        f"http://user:{SECRET}@host",
        f"redis:/user:{SECRET}@host",
        f"redis://:[{SECRET}@h]",
    ],
)
def test_no_message_shows_the_password(url):
    with pytest.raises(ConfigurationError) as caught:
        check_url(url)
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_an_address_does_not_show_its_password():
    assert SECRET not in repr(parse_url(f"sentinel://u:{SECRET}@h/m?sentinel_password={SECRET}"))


@pytest.fixture
def fresh_clients():
    clients.close_all()
    yield
    clients.close_all()


@pytest.mark.usefixtures("fresh_clients")
class TestSharing:
    @pytest.mark.parametrize(
        "url", ["redis://h:1", "rediss://h:1", "unix:///none", "sentinel://h:1/m", "redis+cluster://h:1"]
    )
    def test_a_client_is_made_without_connecting_and_shared(self, url):
        assert clients.connect(url) is clients.connect(url)
        assert clients.connect_waiting(url) is clients.connect_waiting(url)
        assert clients.connect(url) is not clients.connect_waiting(url)
        assert clients.connect(url) is not clients.connect(url + "?db=0")

    def test_a_wrong_url_makes_none(self):
        with pytest.raises(ConfigurationError):
            clients.connect("redis://h?x=1")

    @pytest.mark.parametrize("url", ["redis://h:1", "rediss://h:1", "unix:///none", "sentinel://h:1/m"])
    def test_every_connection_has_bounded_waits_and_no_retries(self, url):
        for client, timeout in (
            (clients.connect(url), 5),
            (clients.connect_waiting(url), 10),
            (clients.connect(url, 2), 2),
        ):
            options = client.connection_pool.connection_kwargs
            assert options["socket_timeout"] == timeout
            assert options["socket_connect_timeout"] == min(timeout, 5)
            assert options["retry"]._retries == 0

    def test_the_longest_wait_ends_before_its_socket_gives_up(self):
        options = clients.connect_waiting("redis://h:1").connection_pool.connection_kwargs
        assert options["socket_timeout"] >= clients.LONGEST_WAIT + 1
