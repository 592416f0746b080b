"""When Redis can't be asked, every page still shows, soon, and says so without a password."""

from __future__ import annotations

import time

import pytest
from django.conf import settings
from django.test import override_settings

from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.urls import mask_url
from django_taskq.dashboard.source import TIMEOUT
from tests.app.admin import VIEW, bury, client_of, entries, letter_url, text_of, token_of, url
from tests.waiting import SLACK

pytestmark = pytest.mark.django_db

ID = "01M8MNRF0AED36CMVMSZTG7KR3"
PAGES = [
    url("queue"),
    url("lease"),
    url("deadletter"),
    url("deadletter") + "?q=x&queue=mail",
    letter_url(ID),
    letter_url(ID, "history"),
    url("lease", "change", f"default_3A{ID}"),
    url("queue", "change", "default_3Amail"),
    url("deadletter", "retry"),
    url("deadletter", "discard") + f"?key=default:{ID}",
]


@pytest.fixture
def client():
    return client_of(*VIEW, "retry_deadletter", "discard_deadletter")


def served_by(address, **options):
    entry = settings.TASKS["default"]
    return override_settings(TASKS={"default": {**entry, "OPTIONS": {"url": address, **options}}})


def test_pages_show_when_nobody_listens(client):
    with served_by("redis://user:hunter2@127.0.0.1:1/0?password=hunter3"):
        for path in PAGES:
            page = text_of(client.get(path))
            assert "Redis can&#x27;t be reached" in page, path
            assert "redis://***@127.0.0.1:1/0?password=***" in page
            assert "hunter" not in page


def test_pages_show_soon_when_redis_does_not_answer(client, new_server):
    server = new_server()
    server.pause()
    with served_by(server.unix_url):
        for path in PAGES[:5]:
            began = time.monotonic()
            assert "Redis can&#x27;t be reached" in text_of(client.get(path)), path
            assert time.monotonic() - began < TIMEOUT + SLACK


def test_pages_recover_when_redis_does(client, new_server):
    server = new_server()
    with served_by(server.unix_url):
        assert "errornote" not in text_of(client.get(url("queue")))
        server.stop()
        assert "errornote" in text_of(client.get(url("queue")))
        server.start()
        assert "errornote" not in text_of(client.get(url("queue")))


def test_a_wrong_password_is_not_shown(client, new_server):
    server = new_server()
    with server.client() as admin:
        admin.config_set("requirepass", "right")
    with served_by(server.unix_url.replace("unix://", "unix://:hunter2@")):
        page = text_of(client.get(url("deadletter")))
    assert "Redis refuses us" in page
    assert "hunter2" not in page


def test_wrong_options_are_not_shown(client):
    with served_by("redis://:hunter2@localhost:port/0", nonesuch="hunter3"):
        for path in PAGES:
            page = text_of(client.get(path))
            assert "The options of this backend are wrong" in page
            assert "hunter" not in page


@pytest.mark.leaves_keys("the server is stopped")
def test_an_action_fails_with_a_message(client, new_server):
    server = new_server()
    broker = Broker(clients.connect(server.unix_url))
    with served_by(server.unix_url):
        record_id = bury(broker)
        one = token_of(text_of(client.get(letter_url(record_id))))
        everything = token_of(text_of(client.get(url("deadletter", "retry"))))
        selected = {"action": "retry_selected", "index": 0, "_selected_action": f"default:{record_id}"}
        server.stop()
        response = client.post(url("deadletter", "retry"), {"op": one}, follow=True)
        assert any("Redis can't be reached" in str(message) for message in response.context["messages"])
        response = client.post(url("deadletter", "retry"), {"op": everything}, follow=True)
        assert "It has come to a halt" in text_of(response)
        assert "errornote" in text_of(client.post(url("deadletter"), selected, follow=True))
    assert ["reached" in entry.change_message for entry in entries()] == [True, True]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:p%40ss@host/0", "redis://***@host/0"),
        ("rediss://user:a@b@host/0?ssl_keyfile=/k&timeout=3", "rediss://***@host/0?ssl_keyfile=***&timeout=3"),
        ("sentinel://:pw@one:1,two:2/main/0", "sentinel://***@one:1,two:2/main/0"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("unix://:pw@/run/redis.sock?db=2&password=pw", "unix://***@/run/redis.sock?db=2&password=***"),
    ],
)
def test_what_logs_in_is_starred_out_of_an_address(address, shown):
    assert mask_url(address) == shown
