"""A record's own page: its arguments, its error, its attempts; nothing in it is markup, and no secret shows."""

from __future__ import annotations

import json

import pytest

from django_taskq.broker.records import AttemptError
from django_taskq.dashboard.display import duration, visible
from tests.app.admin import VIEW, bury, client_of, error, letter_url, rows, text_of, url
from tests.broker.helpers import claim, envelope, lease_one, make_due, put

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker(backend):
    return backend.broker


@pytest.fixture
def viewer(backend):
    return client_of(*VIEW)


def test_a_dead_letter_shows_arguments_traceback_and_every_attempt(viewer, broker):
    (record_id,) = put(
        broker, queue="default", key="order-17", envelope=envelope("shop.pay", args=[17], kwargs={"note": "Grüße"})
    )
    for number in (1, 2):
        (lease,) = claim(broker, queues=["default"], child=f"web-{number}.abc").leases
        broker.retry(lease, 60_000, error(f"shop.Error{number}", f"message {number}", f"traceback {number}"))
        make_due(broker, record_id, queue="default")
    (lease,) = claim(broker, queues=["default"], child="web-3.abc").leases
    broker.bury(lease, AttemptError("", "", "", "worker lost").to_json())
    page = text_of(viewer.get(letter_url(record_id)))
    for text in ("shop.pay", record_id, "order-17", "17", "Grüße", "3 of 3", str(lease.token), "worker lost"):
        assert text in page
    for number in (1, 2):
        for text in (f"web-{number}.abc", f"shop.Error{number}: message {number}", f"traceback {number}"):
            assert text in page
    assert page.index("web-3.abc") < page.index("web-1.abc")


def test_a_lease_shows_its_earlier_attempts(viewer, broker):
    lease = lease_one(broker, envelope=envelope("shop.pay", args=[17]))
    broker.retry(lease, 60_000, error("shop.Closed"))
    make_due(broker, lease.id)
    (again,) = claim(broker).leases
    page = text_of(viewer.get(url("lease", "change", f"default_3A{lease.id}")))
    assert "shop.Closed" in page
    assert str(again.token) in page
    assert "2 of 3" in page


HOSTILE = "<script>alert(1)</script>\u202e\u2066'\"&lt;{{ 7|add:1 }}"


def test_stored_markup_is_text_everywhere(viewer, broker):
    failure = AttemptError(f"x.{HOSTILE}", HOSTILE, HOSTILE, HOSTILE).to_json()
    record_id = bury(
        broker, f"<b>{chr(0x202E)}q", HOSTILE, failure, args=[HOSTILE], kwargs={HOSTILE: {HOSTILE: HOSTILE}}
    )
    lease = lease_one(broker, "x", child="w.<i>a</i>", envelope=envelope(HOSTILE, args=[HOSTILE]))
    paths = [url("queue"), url("lease"), url("deadletter"), letter_url(record_id), letter_url(record_id, "history")]
    paths += [url("lease", "change", f"default_3A{lease.id}"), url("deadletter") + "?q=%3Cscript%3E"]
    for path in paths:
        page = text_of(viewer.get(path))
        assert "<script>alert" not in page
        assert "<i>a" not in page
        assert "\u202e" not in page
        assert "\u2066" not in page
    assert "\\u202e" in page
    assert "{{ 7|add:1 }}" in text_of(viewer.get(letter_url(record_id)))


@pytest.mark.parametrize("name", ["password", "api_key", "Authorization", "secret_token"])
def test_secrets_are_starred_out(viewer, broker, name):
    record_id = bury(
        broker, kwargs={name: "hunter2", "user": {name: ["hunter2"], "name": "eva"}}, args=[{name: "hunter2"}]
    )
    page = text_of(viewer.get(letter_url(record_id)))
    assert "hunter2" not in page
    assert "eva" in page
    assert page.count("********************") == 3


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[]", b'"text"', b"\xff\xfe", b'{"name":', b"[" * 100_000, b'{"name":"","password":"hunter2"}'],
)
def test_what_no_worker_can_decode_is_shown_as_such(viewer, broker, body):
    lease = lease_one(broker, "default", envelope=body or b" ")
    broker.bury(lease, error())
    page = text_of(viewer.get(letter_url(lease.id)))
    assert "Undecodable" in page
    assert "hunter2" not in page
    assert rows(viewer.get(url("deadletter"))) == [lease.id]


def test_of_an_envelope_that_is_too_new_what_can_be_read_is_shown(viewer, broker):
    document = {"v": 99, "name": "shop.pay", "args": [17], "kwargs": {"password": "hunter2"}}
    lease = lease_one(broker, "default", envelope=json.dumps(document).encode())
    broker.bury(lease, error())
    page = text_of(viewer.get(letter_url(lease.id)))
    assert "version 99" in page
    assert "shop.pay" in page
    assert "hunter2" not in page


@pytest.mark.parametrize(
    "document",
    [
        '{"name":"a","args":["\\ud800\\u0000"]}',
        '{"name":"\\udc00","args":[1e400,9007199254740993,' + "9" * 3000 + "]}",
        '{"name":"a","args":' + "[" * 400 + "]" * 400 + "}",
        '{"name":"a","args":"text","kwargs":[1],"max_attempts":"x"}',
        '{"name":"a","args":["' + "x" * 900_000 + '"]}',
    ],
)
def test_odd_arguments_have_their_page(viewer, broker, document):
    lease = lease_one(broker, "default", envelope=document.encode())
    broker.bury(lease, b'{"error":"a","message":"\\ud800","traceback":"\\u0000"}')
    for path in (letter_url(lease.id), url("deadletter"), url("deadletter") + "?q=arg:x"):
        page = text_of(viewer.get(path))
        assert len(page) < 300_000
    if "9007" in document:
        assert "9007199254740993" in text_of(viewer.get(letter_url(lease.id)))


def test_a_log_that_cannot_be_read_is_an_attempt_that_says_so(viewer, broker):
    record_id = bury(broker)
    broker.client.lset(broker.keys.log(record_id), 0, b"\xff<b>no log</b>")
    page = text_of(viewer.get(letter_url(record_id)))
    assert "The log line can&#x27;t be read." in page
    assert "&lt;b&gt;no log" in page
    text_of(viewer.get(url("deadletter")))


def test_a_damaged_record_is_listed_and_its_page_says_so(viewer, broker):
    record_id = bury(broker)
    broker.client.hset(broker.keys.run(record_id), mapping={"state": "<lost>"})
    assert rows(viewer.get(url("deadletter"))) == [record_id]
    page = text_of(viewer.get(letter_url(record_id)))
    assert "Its state is “&lt;lost&gt;”, which isn&#x27;t known here." in page


def test_what_is_not_dead_any_more_says_what_became_of_it(viewer, broker):
    record_id = bury(broker)
    (entry,) = viewer.get(url("deadletter")).context["cl"].result_list
    broker.requeue([(record_id, entry.shown.entry.score, 0)])
    assert "its state is now “waiting”" in text_of(viewer.get(letter_url(record_id)))


@pytest.mark.parametrize(
    "key", ["default:nonesuch", "nonesuch:01M8MNRF0AED36CMVMSZTG7KR3", "x", "default:a:b", "default:"]
)
def test_what_never_was_is_not_found(viewer, key):
    for model in ("deadletter", "lease", "queue"):
        response = viewer.get(url(model, "change", key.replace(":", "_3A")))
        assert response.status_code == 404, model
        text_of(viewer.get(url(model, "history", key.replace(":", "_3A"))))


def test_control_and_bidi_characters_are_written_out():
    assert visible("a\u202eb\u2066\x00\x1b[1m\ud800\u200b") == "a\\u202eb\\u2066\\u0000\\u001b[1m\\ud800\\u200b"
    assert visible("שלום Grüße 👩\u200d🔧\n\t") == "שלום Grüße 👩\u200d🔧\n\t"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "0 ms"), (120, "120 ms"), (1500, "1.5 s"), (59_900, "59 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")],
)
def test_spans_of_time_have_one_or_two_units(milliseconds, text):
    assert duration(milliseconds) == text
