"""Tasks that end in odd ways, or don't."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import threading
import time
import weakref

from django_taskq import background
from tests.redis.jobs import note


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Exiting(Exception):
    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


class Endless(Exception):
    def __str__(self):
        return str(self)


class NoText(Exception):
    def __str__(self):
        return 5


class Demanding(Exception):
    """Can't be made again from its args, as a pickled one is."""

    def __init__(self, code, *, detail):
        super().__init__()
        self.code, self.detail = code, detail


def chained(length):
    error = ValueError("cause 0")
    for number in range(1, length):
        following = ValueError(f"cause {number}")
        following.__cause__ = error
        error = following
    return error


def circular():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


ODD = {
    "unprintable": Unprintable,
    "exiting": Exiting,
    "endless": Endless,
    "no text": NoText,
    "demanding": lambda: Demanding(7, detail=object()),
    "lock": lambda: ValueError(threading.Lock()),
    "socket": lambda: OSError(socket.socket()),
    "causes": lambda: chained(1000),
    "circle": circular,
    "group": lambda: ExceptionGroup("several", [ValueError("one"), ExceptionGroup("more", [chained(200)])]),
    "surrogate": lambda: ValueError("\ud800 \0"),
    "huge": lambda: ValueError("é" * 5_000_000),
}


@background(max_attempts=1)
def raise_odd(kind):
    raise ODD[kind]()


@background(max_attempts=1)
async def araise_odd(kind):
    raise ODD[kind]()


@background(max_attempts=1)
async def exit_in_subtask(error):
    """Let a coroutine that runs beside this one end the interpreter, as it may think."""

    async def leave():
        raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[error]

    await asyncio.gather(leave(), asyncio.sleep(30))


@background(timeout=0.5, max_attempts=1)
def stay(way):
    """Run on after the time limit."""
    note("begin", way)
    if way == "sleep":
        time.sleep(30)
    if way == "recv":
        here, there = socket.socketpair()
        here.recv(1)
        there.close()
    if way == "c loop":
        re.match(r"(a+)+b", "a" * 40)
    while way == "swallow":
        try:
            time.sleep(0.01)
        except Exception:
            note("swallowed")


@background(timeout=0.05, max_attempts=1)
def spin():
    while True:
        pass


class Local:
    """Something that a task holds while it runs."""


_locals: weakref.WeakSet[Local] = weakref.WeakSet()


@background(max_attempts=1)
def fail_holding():
    held = Local()
    _locals.add(held)
    raise ValueError(held)


@background(max_attempts=1)
async def afail_holding():
    fail_holding.func()


@background
def count_held():
    gc.collect()
    return len(_locals)
