"""Arguments travel as JSON, and what JSON would bend or lose is refused where it stands."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import TextChoices
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from django_taskq.arguments import MAX_DEPTH, to_json, without_surrogates
from django_taskq.broker.envelope import dump_json


class Colour(TextChoices):
    RED = "r"


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def loop():
    value = {"again": []}
    value["again"].append(value)
    return value


NUMBERS = [0, -1, 123456789012345, 2**53 - 1, 2**53 + 1, 2**63 - 1, 10**100, -0.0, 0.1 + 0.2, 1e21, 5e-324, 1.7e308]


@pytest.mark.parametrize("number", NUMBERS)
def test_c45_numbers_come_back_exactly(number):
    back = json.loads(dump_json(to_json([number], "args")))[0]

    assert repr(back) == repr(number)


@pytest.mark.parametrize("value", [None, True, "", "Grüße 🎉 \x00", [], {}, {"": [1, {"a": None}]}, [[], [[]]]])
def test_plain_values_come_back_equal(value):
    assert json.loads(dump_json(to_json(value, "args"))) == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2,)), [1, [2]]),
        (namedtuple("Point", "x y")(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (Colour.RED, "r"),
        ([mark_safe("<b>")], ["<b>"]),
        ({Colour.RED: 1}, {"r": 1}),
    ],
)
def test_lookalikes_become_plain(value, plain):
    made = to_json(value, "args")

    assert made == plain
    assert type(made) is type(plain)
    assert "Colour" not in repr(made)


def test_a_copy_is_made():
    inner = [1]
    made = to_json([inner], "args")
    inner.append(2)

    assert made == [[1]]


REFUSED = [
    (math.nan, ValueError, " is NaN, which JSON doesn't have."),
    (math.inf, ValueError, " is Infinity, which JSON doesn't have."),
    (-math.inf, ValueError, " is -Infinity, which JSON doesn't have."),
    ("\ud800", ValueError, "lone surrogate"),
    ({"\udfff": 1}, ValueError, "lone surrogate"),
    (b"raw", TypeError, "bytes"),
    (bytearray(b"raw"), TypeError, "bytearray"),
    (memoryview(b"raw"), TypeError, "memoryview"),
    ({1, 2}, TypeError, "set"),
    (frozenset(), TypeError, "frozenset"),
    ({(1, 2): 3}, TypeError, "(1, 2)"),
    ({1: 2}, TypeError, "only strings"),
    ({True: 2}, TypeError, "only strings"),
    ({None: 2}, TypeError, "only strings"),
    (Decimal("1.5"), TypeError, "Decimal"),
    (datetime(2026, 1, 1, tzinfo=UTC), TypeError, "isoformat"),
    (date(2026, 1, 1), TypeError, "isoformat"),
    (timedelta(1), TypeError, "timedelta"),
    (uuid4(), TypeError, "UUID"),
    (User(pk=1), TypeError, "primary key"),
    (gettext_lazy("lazy"), TypeError, "str()"),
    (lazystr("lazy"), TypeError, "str()"),
    (object(), TypeError, "object"),
    (iter([1]), TypeError, "list_iterator"),
    (print, TypeError, "builtin_function"),
    (10**5000, ValueError, "4300 digits"),
    (nested(2000), ValueError, "levels deep"),
    (loop(), ValueError, "contains itself"),
]


@pytest.mark.parametrize(("value", "error", "text"), REFUSED, ids=[str(index) for index in range(len(REFUSED))])
def test_c46_what_json_cannot_carry_is_refused_with_its_place(value, error, text):
    with pytest.raises(error) as caught:
        to_json([1, {"deep": [value]}], "add: args")

    assert str(caught.value).startswith(f"Unsupported {error.__name__[:-5].lower()}: add: args[1]['deep'][0]")
    assert text in str(caught.value)


def test_c46_the_path_of_a_deep_place_is_cut():
    with pytest.raises(ValueError, match="levels deep") as caught:
        to_json(nested(2000), "args")

    assert len(str(caught.value)) < 200
    assert "…" in str(caught.value)


def test_the_depth_that_is_promised_is_accepted():
    assert to_json(nested(MAX_DEPTH), "args") == nested(MAX_DEPTH)
    with pytest.raises(ValueError, match="levels deep"):
        to_json(nested(MAX_DEPTH + 1), "args")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\udcffb", "a\\udcffb"),
        ({"\udcff": ["\ud800", ("x", b"y")]}, {"\\udcff": ["\\ud800", ["x", b"y"]]}),
        ([1, None, 1.5, True], [1, None, 1.5, True]),
    ],
)
def test_lone_surrogates_can_be_written_out(value, expected):
    assert without_surrogates(value) == expected
