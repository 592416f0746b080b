"""The golden vectors of replies and log lines: what the Python package reads in them, and which errors it writes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from django_taskq.broker import broker as brokers
from django_taskq.broker import enqueueing
from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import Attempt, AttemptError, Claim
from tests.protocol.vectors import entries, made, made_bytes, shown

PLACEHOLDER = Claim("w.c1", 1, 1, 30_000, ("q",))


def replied(value):
    """Return a reply as redis-py gives it."""
    if isinstance(value, list):
        return [replied(each) for each in value]
    return value.encode() if isinstance(value, str) else value


def lease_shown(lease):
    told = ("id", "queue", "token", "attempt", "releases", "unknown_ms", "claimed_at", "cancel_requested")
    return {**{name: getattr(lease, name) for name in told}, "task": lease.task.decode()}


def record_shown(record):
    if record is None or isinstance(record, str):
        return record
    told = (
        *("state", "attempts", "releases", "token", "worker", "started_at", "last_attempted_at", "finished_at"),
        *("cancel_requested", "due_at", "lease_ends_at", "died_at", "expires_in_ms", "worker_ids", "result"),
    )
    failures = [attempt.error.message for attempt in record.round if attempt.error]
    return {**{name: getattr(record, name) for name in told}, "failures": failures}


def claimed_shown(reply):
    claimed = brokers._claimed(reply, 0.0)
    leases = [lease_shown(lease) for lease in claimed.leases]
    return {"stale": claimed.stale, "next_due_ms": claimed.next_due_ms, "leases": leases}


def expired_shown(reply):
    broker = Broker(SimpleNamespace())
    broker.run = lambda script, arguments: reply
    expired = broker.expired(["q"])
    return {"next_lapse_ms": expired.next_lapse_ms, "leases": [lease_shown(lease) for lease in expired.leases]}


def read_shown(reply):
    inspector = Inspector(Broker(SimpleNamespace()))
    inspector.broker.run = lambda script, arguments: reply
    return [record_shown(one) for one in inspector._read([f"r{index}" for index in range(len(reply))])]


def enqueued_shown(reply):
    return [one._asdict() for one in enqueueing._page(reply)]


READERS = {"enqueue": enqueued_shown, "claim": claimed_shown, "expired": expired_shown, "read": read_shown}


@pytest.mark.parametrize("vector", entries("replies"), ids=lambda vector: ascii(vector["reply"])[:60])
def test_a_reply_means_what_is_described(vector):
    assert READERS[vector["script"]](replied(vector["reply"])) == vector["means"]


@pytest.mark.parametrize("vector", [one for one in entries("logs") if "line" in one], ids=shown)
def test_a_log_line_is_read(vector):
    attempt = Attempt.from_line(made_bytes(vector["line"]))
    if vector.get("unreadable"):
        assert (attempt.attempt, attempt.error.reason) == (0, "unreadable")
    else:
        told = {**vars_of(attempt), "error": attempt.error and vars_of(attempt.error)}
        assert told == vector["attempt"]


def vars_of(value):
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


@pytest.mark.parametrize("vector", [one for one in entries("logs") if "json" in one], ids=lambda one: ascii(one)[:60])
def test_an_error_is_written(vector):
    error = AttemptError(**{name: made(text) for name, text in vector["error"].items()})
    assert error.to_json() == made_bytes(vector["json"])
    assert json.loads(error.to_json())["error"] == error.error
