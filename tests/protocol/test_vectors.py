"""The golden vectors hold for the Python package: what is read, what is written, and what is refused in which words."""

from __future__ import annotations

import re

import pytest

from django_taskq.arguments import to_json
from django_taskq.broker import ids, keys
from django_taskq.broker.envelope import DEFAULT_BACKOFF, Envelope, dump_json, head_lines, parse_task
from django_taskq.broker.exceptions import UnknownVersion, UnreadableRecord
from django_taskq.broker.retry import RetryPolicy, decide
from django_taskq.policy import check_wire_name
from tests.protocol.vectors import VECTORS, entries, is_same, made, made_bytes, shown

CHECKS = {
    "namespace": keys.check_namespace,
    "queue": keys.check_queue_name,
    "worker": keys.check_worker_name,
    "child": keys.check_child_id,
    "key": keys.check_idempotency_key,
    "priority": keys.check_priority,
    "id": keys.check_id,
    "task": check_wire_name,
}


def read(data):
    """Read JSON as a worker reads the arguments of a record."""
    return Envelope.from_bytes(b'{"name":"t","kwargs":{"it":%b}}' % data).kwargs["it"]


@pytest.mark.parametrize("vector", entries("json"), ids=shown)
def test_json_is_read_and_written(vector):
    text = made_bytes(vector["text"])
    value = made(vector["value"]) if "value" in vector else read(made_bytes(vector["read"]))
    assert dump_json(to_json(value, "value")) == text
    assert is_same(read(text), value)


@pytest.mark.parametrize("vector", [one for one in entries("refused") if "value" in one], ids=shown)
def test_a_value_is_refused_with_its_reason(vector):
    with pytest.raises(ValueError, match=f"^{re.escape(made(vector['error']))}$"):
        to_json(made(vector["value"]), vector["what"])


@pytest.mark.parametrize("vector", [one for one in entries("refused") if "value" not in one], ids=shown)
def test_what_is_no_json_is_unreadable(vector):
    data = bytes.fromhex(vector["hex"]) if "hex" in vector else made_bytes(vector["text"])
    with pytest.raises(UnreadableRecord):
        read(data)


@pytest.mark.parametrize("vector", entries("names"), ids=shown)
def test_a_name_is_taken_or_refused_with_its_reason(vector):
    check, name = CHECKS[vector["kind"]], made(vector["name"])
    if "error" not in vector:
        assert check(name) == name
    else:
        with pytest.raises(ValueError, match=f"^{re.escape(made(vector['error']))}$"):
            check(name)


def test_ids_are_as_described():
    section = VECTORS["ids"]
    pattern = re.compile(section["pattern"])
    assert section["sorted"] == sorted(section["sorted"])
    assert all(pattern.match(one) for one in section["sorted"])
    assert not any(pattern.match(one) for one in section["invalid"])


@pytest.mark.parametrize("vector", VECTORS["ids"]["times"], ids=shown)
def test_an_id_begins_with_its_millisecond(monkeypatch, vector):
    monkeypatch.setattr(ids.time, "time_ns", lambda: vector["ms"] * 1_000_000)
    monkeypatch.setattr(ids, "_source", ids._Source())
    drawn = [ids.new_id() for _ in range(3)]
    assert drawn == sorted(set(drawn))
    assert all(re.match(VECTORS["ids"]["pattern"], one) for one in [vector["id"], *drawn])
    assert {one[:10] for one in drawn} == {vector["id"][:10]}


@pytest.mark.parametrize("vector", entries("backoff"), ids=shown)
def test_backoff_is_decided(vector):
    if "error" in vector:
        with pytest.raises(ValueError, match=f"^{re.escape(vector['error'])}$"):
            RetryPolicy.parse(vector["policy"])
    else:
        policy = RetryPolicy.parse(vector["policy"])
        assert decide(vector["attempt"], vector["max_attempts"], policy, vector["random"]) == vector["delay_ms"]


@pytest.mark.parametrize("vector", [one for one in entries("heads") if "lines" in one], ids=shown)
def test_a_head_is_written(vector):
    lines = vector["lines"]
    assert head_lines(lines.get("key"), lines.get("key_ttl_ms", 0), lines.get("record")) == vector["text"]


@pytest.mark.parametrize("vector", [one for one in entries("heads") if "task" in one], ids=shown)
def test_a_head_is_read(vector):
    task = made_bytes(vector["task"])
    head, envelope = parse_task(task, "where it was found")
    if vector.get("unreadable"):
        assert (head.queue, envelope) == ("where it was found", task)
    else:
        assert [*head] == [*vector["head"].values()]
        assert envelope == made_bytes(vector["envelope"])


def policy_of(described):
    return RetryPolicy(**described) if described else DEFAULT_BACKOFF


def envelope_of(fields):
    fields = {name: value if name == "backoff" else made(value) for name, value in fields.items()}
    return Envelope(**{**fields, "backoff": policy_of(fields.get("backoff"))})


@pytest.mark.parametrize("vector", [one for one in entries("envelopes") if "text" in one], ids=shown)
def test_an_envelope_is_written_and_read(vector):
    envelope = envelope_of(vector["fields"])
    text = made_bytes(vector["text"])
    assert envelope.to_bytes() == text
    assert Envelope.from_bytes(text) == envelope


@pytest.mark.parametrize("vector", [one for one in entries("envelopes") if "read" in one], ids=shown)
def test_an_envelope_is_read_or_refused(vector):
    data = made_bytes(vector["read"])
    if "error" not in vector:
        assert Envelope.from_bytes(data) == envelope_of(vector["fields"])
    else:
        with pytest.raises(UnreadableRecord) as caught:
            Envelope.from_bytes(data)
        assert isinstance(caught.value, UnknownVersion) == (vector["error"] == "version")
