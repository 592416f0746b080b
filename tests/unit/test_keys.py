"""C54 in one place: the rules for names, which every layer asks here."""

from __future__ import annotations

import inspect

import pytest

from django_taskq.broker import keys
from django_taskq.broker.exceptions import InvalidName
from django_taskq.broker.keys import Keys

CHECKS = {name: check for name, check in inspect.getmembers(keys, inspect.isfunction) if name.startswith("check_")}


@pytest.mark.parametrize("name", ["dlq", "default:leases", "a}b", "", "x" * 300, "a\nb", "*", "日本", "\ud800", None])
def test_c54_queues_and_namespaces_follow_one_rule(name):
    assert outcome(keys.check_queue_name, name) == outcome(keys.check_namespace, name)


def outcome(check, name):
    try:
        return check(name)
    except InvalidName as error:
        return str(error).replace("namespace", "queue name")


@pytest.mark.parametrize("check", sorted(set(CHECKS) - {"check_priority"}))
@pytest.mark.parametrize("value", [None, 5, b"x", "", "a\nb", "\x00", "x" * 300], ids=ascii)
def test_c54_no_name_is_empty_long_or_has_control_characters(check, value):
    with pytest.raises(InvalidName, match=r"\w"):
        CHECKS[check](value)


@pytest.mark.parametrize("check", sorted(set(CHECKS) - {"check_priority"}))
def test_a_good_name_comes_back(check):
    assert CHECKS[check]("abc1") == "abc1"


@pytest.mark.parametrize("value", [None, "5", 1.0, True, 101, -101, float("nan")])
def test_a_priority_is_an_integer_from_minus_100_to_100(value):
    with pytest.raises(InvalidName, match="-100 to 100"):
        keys.check_priority(value)
    assert [keys.check_priority(good) for good in (-100, 0, 100)] == [-100, 0, 100]


def test_a_refusal_shows_no_more_than_the_start_of_a_long_name():
    with pytest.raises(InvalidName) as caught:
        keys.check_queue_name("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_invalid_names_are_value_errors():
    assert issubclass(InvalidName, ValueError)


def test_every_key_starts_with_the_hash_tag():
    names = Keys("my ns")
    made = [names.queues, names.workers]
    made += [getattr(names, kind)("x") for kind in ("task", "run", "log", "idem", "claim", "worker")]
    made += [getattr(names, part)("q") for part in ("ready", "scheduled", "leased", "dead", "wake", "config")]
    assert all(key.startswith("{my ns}:") for key in made)
    assert len(set(made)) == len(made)


def test_the_data_model_s_table_names_every_key():
    names = Keys("{ns}".strip("{}"))
    kinds = {"id": ("task", "run", "log"), "q": ("ready", "scheduled", "leased", "dead", "wake", "config")}
    made = {getattr(names, kind)(f"<{what}>") for what, all_kinds in kinds.items() for kind in all_kinds}
    made |= {
        names.queues,
        names.workers,
        names.repaired,
        names.idem("<key>"),
        names.claim("<child>"),
        names.worker("<worker>"),
    }
    listed = {line.split("``")[1] for line in keys.__doc__.splitlines() if line.startswith("``{ns}:")}
    assert listed == made
