"""Short views of records."""

from __future__ import annotations

import pytest

from django_taskq.broker import inspector as inspectors
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import AttemptError
from django_taskq.broker.summaries import read_object
from tests.broker.helpers import bury_one, envelope, lease_one, now, put


def summary_of(broker, record_id):
    return Inspector(broker).summaries([record_id])[1][0]


def test_a_waiting_record_has_a_name_and_no_attempts(broker):
    (record_id,) = put(broker, envelope=envelope("shop.pay", args=[1], kwargs={"user": "eva"}, max_attempts=5))
    found = summary_of(broker, record_id)
    assert (found.name, found.attempts, found.max_attempts, found.error) == ("shop.pay", 0, 5, None)
    assert found.document["args"] == [1]
    assert found.document["kwargs"] == {"user": "eva"}
    assert found.head.queue == "q"


def test_a_leased_record_names_its_child_and_token(broker):
    lease = lease_one(broker, child="worker.abc")
    clock, (found,) = Inspector(broker).summaries([lease.id])
    assert (found.worker, found.token, found.attempts) == ("worker.abc", lease.token, 1)
    assert abs(found.last_attempted_at - clock) < 10_000
    assert abs(clock - now(broker)) < 10_000


def test_a_dead_letter_tells_its_last_error(broker):
    record_id, _ = bury_one(broker)
    found = summary_of(broker, record_id)
    assert (found.error.error, found.error.message) == ("builtins.OSError", "no")


def test_a_missing_record_is_empty(broker):
    found = summary_of(broker, "missing")
    assert (found.name, found.task, found.error, found.max_attempts) == (None, b"", None, None)


def test_what_is_no_envelope_has_no_name(broker):
    (record_id,) = put(broker, envelope=b"\xff no json")
    found = summary_of(broker, record_id)
    assert found.name is None
    assert found.head.queue == "q"


def test_long_texts_are_cut_and_the_start_is_still_read(broker, monkeypatch):
    monkeypatch.setattr(inspectors, "SUMMARY_BYTES", 300)
    lease = lease_one(broker, envelope=envelope("shop.pay", args=["x" * 5000], max_attempts=7))
    broker.bury(lease, AttemptError("shop.Declined", "no " * 500, "Traceback").to_json())
    found = summary_of(broker, lease.id)
    assert len(found.task) == len(found.log) == 300
    assert (found.name, found.max_attempts) == ("shop.pay", None)
    assert found.error.error == "shop.Declined"
    assert found.error.message.startswith("no no no")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"v": 1, "name" : "a", "args": [1, 2', {"v": 1, "name": "a", "args": None}),
        (b'{"v":1,"name":"abc', {"v": 1, "name": "abc"}),
        (b'{"name":"ab\\u00', {"name": "ab"}),
        (b'{"name":"a\\ud83d\\ude0', {"name": "a\ud83d"}),
        (b'{"name":"a","ar', {"name": "a"}),
        (b"[1, 2", {}),
        (b"", {}),
    ],
)
def test_the_members_before_a_cut_are_read(text, found):
    assert read_object(text, whole=False) == found


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'"a"', b"[" * 200_000, b"1" * 5000])
def test_what_is_no_object_has_no_members(text):
    assert read_object(text, whole=True) == {}
