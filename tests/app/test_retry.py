"""What `Retry` takes."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from django_taskq import Retry


@pytest.mark.parametrize("after", [5, 5.0, Decimal(5), timedelta(seconds=5)])
def test_a_pause_is_a_number_of_seconds_or_a_timedelta(after):
    assert Retry(after).after == 5


@pytest.mark.parametrize("after", ["5", [], object])
def test_what_is_neither_is_refused_by_name(after):
    with pytest.raises(TypeError, match="Retry takes a number of seconds or a timedelta, not "):
        Retry(after)


@pytest.mark.parametrize("after", [-1, float("nan"), timedelta(seconds=-1), timedelta(days=40_000)])
def test_a_pause_out_of_range_is_refused(after):
    with pytest.raises(ValueError, match="Retry takes a number of seconds from 0 to "):
        Retry(after)
