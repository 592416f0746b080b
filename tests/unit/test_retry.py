from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_taskq.broker.retry import LONGEST_DELAY, RetryPolicy, decide

NONE = RetryPolicy(jitter="none")


def test_the_delay_grows_by_the_factor_up_to_the_cap():
    assert [NONE.delay_ms(n, 0.5) for n in range(1, 12)] == [
        1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000
    ]  # fmt: skip


@pytest.mark.parametrize(("jitter", "least", "most"), [("none", 4000, 4000), ("equal", 2000, 4000), ("full", 0, 4000)])
def test_jitter_stays_within_its_bounds(jitter, least, most):
    policy = RetryPolicy(jitter=jitter)
    assert policy.delay_ms(3, 0.0) == least
    assert policy.delay_ms(3, 1.0) == most
    assert policy.delay_ms(3, 0.5) == (least + most) / 2


@given(
    base=st.floats(0, 1e9),
    factor=st.floats(0, 1e9),
    cap=st.floats(0, 1e9),
    attempt=st.integers(1, 10**6),
    random=st.floats(0, 1),
    jitter=st.sampled_from(["none", "equal", "full"]),
)
def test_a_delay_is_a_whole_number_between_zero_and_the_cap(base, factor, cap, attempt, random, jitter):
    delay = RetryPolicy(base, factor, cap, jitter).delay_ms(attempt, random)
    assert isinstance(delay, int)
    assert 0 <= delay <= round(cap * 1000)


@pytest.mark.parametrize("attempt", [59, 60, 61, 1000, 10**9, 10**30])
def test_huge_attempts_give_the_cap(attempt):
    assert RetryPolicy(jitter="none").delay_ms(attempt, 1) == 300_000


@pytest.mark.parametrize("value", [1e308, sys.float_info.max, 10**400, 5e-324])
@pytest.mark.parametrize("name", ["base", "factor", "cap"])
def test_no_policy_overflows(value, name):
    try:
        policy = RetryPolicy(**{name: value, "jitter": "none"})
    except ValueError:
        assert value == 10**400 or value > LONGEST_DELAY
        return
    for attempt in (1, 2, 59, 60, 61, 10**9):
        assert 0 <= policy.delay_ms(attempt, 1) <= LONGEST_DELAY * 1000


def test_a_base_of_nothing_never_waits():
    assert [RetryPolicy(base=0).delay_ms(n, 1) for n in (1, 5, 60, 61, 1000)] == [0] * 5


def test_decide_ends_after_the_last_attempt():
    assert [decide(n, 3, NONE, 0.5) for n in (1, 2, 3, 4)] == [1000, 2000, None, None]
    assert decide(1, 1, NONE, 0.5) is None


class TestParse:
    def test_a_number_is_the_same_delay_each_time(self):
        policy = RetryPolicy.parse(7.5)
        assert {policy.delay_ms(n, random) for n, random in itertools.product((1, 5, 61, 1000), (0, 1))} == {7500}

    def test_a_dict_changes_what_it_names(self):
        assert RetryPolicy.parse({"cap": 5, "jitter": "full"}) == RetryPolicy(cap=5, jitter="full")

    def test_a_policy_stays_itself(self):
        assert RetryPolicy.parse(NONE) is NONE

    def test_a_policy_comes_back_from_its_dict(self):
        policy = RetryPolicy(2, 3.5, 40, "none")
        assert RetryPolicy.parse(policy.to_dict()) == policy

    def test_policies_can_be_keys(self):
        assert len({RetryPolicy(), RetryPolicy(), NONE}) == 2

    @pytest.mark.parametrize(
        ("value", "named"),
        [
            (True, "number of seconds or a dict"),
            ("5", "number of seconds or a dict"),
            (None, "number of seconds or a dict"),
            ([1], "number of seconds or a dict"),
            ({"bse": 1}, "'bse'"),
            ({"base": -1}, "base"),
            ({"base": "1"}, "base"),
            ({"factor": float("nan")}, "factor"),
            ({"cap": float("inf")}, "cap"),
            ({"cap": True}, "cap"),
            ({"jitter": "half"}, "jitter"),
            (-5, "base"),
            (1e300, "base"),
        ],
    )
    def test_what_is_wrong_is_named(self, value, named):
        with pytest.raises(ValueError, match=named):
            RetryPolicy.parse(value)
