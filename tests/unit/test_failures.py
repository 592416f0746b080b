"""Whatever an exception is like, it becomes text."""

from __future__ import annotations

import gc
import threading
import weakref

from django_taskq.failures import describe


class Unprintable(Exception):
    def __str__(self):
        raise SystemExit

    __repr__ = __str__


def caught(function, *args):
    try:
        function(*args)
    except BaseException as error:
        return error


def throw(error):
    raise error


def test_an_exception_without_a_text_is_recorded():
    described = describe(caught(throw, Unprintable()))

    assert described.error.endswith("Unprintable")
    assert "can't be shown" in described.message
    assert "Unprintable" in described.traceback
    assert described.to_json()


def test_one_that_holds_a_lock_is_recorded():
    assert describe(caught(throw, ValueError(threading.Lock()))).to_json()


def test_a_long_chain_of_causes_is_cut():
    error = ValueError("first")
    for number in range(1000):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = following

    described = describe(caught(throw, error))

    assert described.message == "number 999"
    assert len(described.to_json()) < 3 * 65536


def test_an_exception_group_shows_its_members():
    group = ExceptionGroup("several", [ValueError("one"), TypeError("two")])

    traceback = describe(caught(throw, group)).traceback

    assert "one" in traceback
    assert "two" in traceback


def test_lone_surrogates_and_huge_texts_can_be_stored():
    described = describe(caught(throw, ValueError("\ud800" + "x" * 5_000_000)))

    assert len(described.to_json()) < 3 * 65536


def test_nothing_of_the_exception_is_kept_alive():
    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)

    def fail(value):
        raise ValueError("x")

    described = describe(caught(fail, large))
    del large
    gc.collect()

    assert gone() is None
    assert described.message == "x"
