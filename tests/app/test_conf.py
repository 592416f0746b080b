"""Options: unknown ones are refused, values mean what the table says, and 0 is a value."""

from __future__ import annotations

from dataclasses import fields

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_taskq.broker.retry import RetryPolicy
from django_taskq.conf import Options, milliseconds


def test_the_defaults_are_those_of_the_documentation():
    assert Options.parse({}) == Options(
        url="redis://localhost:6379/0",
        namespace="taskq",
        lease_seconds=30,
        max_attempts=3,
        backoff=RetryPolicy(base=1, factor=2, cap=300, jitter="equal"),
        timeout=None,
        result_ttl=86400,
        idempotency_ttl=86400,
        unknown_ttl=86400,
        max_payload_bytes=1_000_000,
        on_commit=True,
        records="none",
        records_ttl=None,
    )


def test_a_default_is_no_problem():
    assert Options.problems({option.name: getattr(Options(), option.name) for option in fields(Options)}) == []


@pytest.mark.parametrize(
    ("name", "near"),
    [("lease_second", "lease_seconds"), ("max_attempt", "max_attempts"), ("URL", ""), ("result-ttl", "result_ttl")],
)
def test_an_unknown_option_is_refused_with_the_near_one(name, near):
    (problem,) = Options.problems({name: 1})

    assert problem.code == "E001"
    assert repr(name) in problem.text
    assert near in problem.hint
    with pytest.raises(ImproperlyConfigured, match="Unknown option"):
        Options.parse({name: 1})


@pytest.mark.parametrize("name", ["dead_limit", "admin", "redact", "queues"])
def test_an_option_whose_feature_is_not_built_is_unknown(name):
    assert [problem.code for problem in Options.problems({name: None})] == ["E001"]


REFUSED = [
    ("url", ["http://localhost", "localhost", "", None, 5, "redis://localhost/0?retry=3"]),
    ("namespace", ["", "a:b", "a{b", None, "x" * 101, 5]),
    ("lease_seconds", [0, 0.2, -1, None, "30", True, 86_401, float("nan"), float("inf")]),
    ("max_attempts", [0, -1, 1.5, None, True, "3"]),
    ("backoff", [-1, {"bas": 1}, {"jitter": "some"}, None, "1", True]),
    ("timeout", [0, -1, "30", True, float("inf")]),
    ("result_ttl", [-1, None, "day", False, 1e300]),
    ("idempotency_ttl", [-0.1, None]),
    ("unknown_ttl", [-1, None]),
    ("max_payload_bytes", [0, 1.5, None]),
    ("on_commit", ["", None, 1, 0]),
    ("records", ["", None, True, "all", ["finished"], "Outbox"]),
    ("records_ttl", [0, -1, "30d", True, float("inf")]),
]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED for value in values])
def test_a_bad_value_is_refused_with_a_hint(name, value):
    (problem,) = Options.problems({name: value})

    assert problem.code == "E002"
    assert problem.hint
    with pytest.raises(ImproperlyConfigured):
        Options.parse({name: value})


NUMBERS = [
    "lease_seconds", "max_attempts", "backoff", "timeout", "result_ttl", "idempotency_ttl", "unknown_ttl",
    "max_payload_bytes", "records_ttl",
]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [10**400, 10**5000, -(10**5000)], ids=["long", "longer", "negative"])
def test_a_number_that_nobody_can_count_is_refused_in_clear_words(name, value):
    (problem,) = Options.problems({name: value})

    assert problem.text.startswith(name)
    assert "must be" in problem.text


def test_all_problems_are_named_at_once():
    with pytest.raises(ImproperlyConfigured, match=r"max_attempts.*timeout"):
        Options.parse({"max_attempts": 0, "timeout": 0})


@pytest.mark.parametrize("options", [None, [], "redis://", 5])
def test_options_that_are_no_dict_are_refused(options):
    assert [problem.code for problem in Options.problems(options)] == ["E002"]


def test_an_outbox_is_part_of_the_transaction():
    (problem,) = Options.problems({"records": "outbox", "on_commit": False})

    assert problem.text == "records='outbox' and on_commit=False contradict each other."
    assert problem.code == "E008"
    assert Options.problems({"records": "outbox", "on_commit": "other"}) == []


def test_c59_zero_keeps_its_meaning():
    conf = Options.parse({"result_ttl": 0, "idempotency_ttl": 0, "unknown_ttl": 0, "backoff": 0, "on_commit": False})

    assert (conf.result_ttl_ms, conf.idempotency_ttl_ms, conf.unknown_ttl_ms) == (0, 0, 0)
    assert conf.backoff.delay_ms(5, 1.0) == 0
    assert conf.on_commit is False


def test_c65_times_below_a_second_are_kept():
    conf = Options.parse({"lease_seconds": 0.25, "timeout": 0.3, "result_ttl": 0.1, "idempotency_ttl": 0.5})

    assert conf.lease_ms == 250
    assert conf.timeout_ms == 300
    assert conf.result_ttl_ms == 100
    assert conf.idempotency_ttl_ms == 500


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 0), (0.0, 0), (1e-12, 1), (0.0004, 1), (0.3, 300), (1.1, 1100), (30, 30_000)]
)
def test_c65_no_time_but_zero_becomes_zero(seconds, expected):
    assert milliseconds(seconds) == expected
