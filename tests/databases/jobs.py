"""Tasks that run in the worker processes of the tests."""

from __future__ import annotations

import os
import signal
import threading

from django.db import connections

from django_taskq import background
from tests.databases.routing import ALIAS
from tests.redis.jobs import note, wait_for_note

ODD_TEXTS = {
    "NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "bytes of a C library": os.fsdecode(b"caf\xe9 \xff\xfe"),
    "emoji": "naïve 🚀 ✓",
    "control": "\x01\x1b[31m\x7f\x85\u2028",
    "bidi": "\u202eevil\u202c",
    "markup": "<script>alert(1)</script>&\"'`",
    "quotes": "a'b\"c\\d%s%%{}",
    "a megabyte": "é" * 490_000,
    "nothing": "",
}


@background
def give(value):
    return value


@background
async def agive(value):
    return value


@background(backoff=0, takes_context=True)
def fail_until(context, attempt, text):
    if context.attempt < attempt:
        raise OSError(text)
    return text


@background(max_attempts=1)
def fail(text):
    raise ValueError(text)


@background
def give_odd(name):
    text = ODD_TEXTS[name]
    return {"text": [text], text[:10]: 1}


@background(max_attempts=1)
def raise_odd(name):
    raise ValueError(ODD_TEXTS[name])


@background(max_attempts=1)
def die():
    os.kill(os.getpid(), signal.SIGKILL)


@background(backoff=0)
def count_up(name, until=""):
    """Note that it runs."""
    note("begin", name)
    if until:
        wait_for_note(until)
    note("end", name)
    return name


@background(backoff=0, outbox=True)
def count_in_outbox(name, until=""):
    return count_up.func(name, until)


@background(backoff=0)
def count_then_fail(name, until=""):
    count_up.func(name, until)
    raise OSError(name)


@background(max_attempts=1)
def count_once(name, until=""):
    return count_up.func(name, until)


@background(backoff=0, max_attempts=2, takes_context=True)
def query(context, name, until=""):
    """Use the database before and after a wait."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT 1")
    note("begin", name, context.attempt)
    if until:
        wait_for_note(until)
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT 41 + 1")
        return cursor.fetchone()[0]


class Unshowable(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.lock = threading.Lock()

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@background(max_attempts=1)
def raise_unshowable():
    raise Unshowable(1, 2)


@background(max_attempts=1)
def raise_chain(length):
    error = ValueError("first")
    for number in range(length):
        try:
            raise KeyError(number) from error
        except KeyError as caught:
            error = caught
    raise ExceptionGroup("many", [error, OSError("second")])
