"""Tasks that run in the worker processes of the tests; they note what happens in a file that the test reads."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import re
import signal
import sys
import time

from asgiref.sync import sync_to_async
from django.db import connection

from django_taskq import Bury, Retry, background

NOTES = "TASKQ_TEST_NOTES"


def note(*words):
    """Add a line; short appends to one file don't mix."""
    with open(os.environ[NOTES], "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def notes():
    try:
        with open(os.environ[NOTES]) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def wait_for_note(line, seconds=30):
    deadline = time.monotonic() + seconds
    while line not in notes() and time.monotonic() < deadline:
        time.sleep(0.005)


@background
def add(a, b=0):
    return a + b


@background
async def aadd(a, b=0):
    await asyncio.sleep(0)
    return a + b


@background(backoff=0)
def fail(text="no luck"):
    raise ValueError(text)


@background(backoff=0, max_attempts=2)
def raise_named(name):
    raise {
        "SystemExit": SystemExit(0),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "CancelledError": asyncio.CancelledError(),
        "GeneratorExit": GeneratorExit(),
        "BaseException": BaseException("base"),
    }[name]


@background(backoff=0, max_attempts=2)
async def araise_named(name):
    raise_named.func(name)


@background(backoff=0, max_attempts=3)
def retry_once(context_free=True):
    note("try")
    if len(notes()) < 2:
        raise Retry(after=0)
    return "done"


@background
def bury():
    raise Bury("bad card")


@background(backoff=0.05)
def hold(name="a", until="go"):
    """Run until a line is noted."""
    note("begin", name)
    wait_for_note(until)
    note("end", name)
    return name


@background(backoff=0.05, max_attempts=3)
def kill_own_process(after="go"):
    note("killer")
    wait_for_note(after)
    os.kill(os.getpid(), signal.SIGKILL)


@background(backoff=0, max_attempts=2)
def exit_process():
    note("exit")
    os._exit(3)


@background(max_attempts=1, timeout=30)
def fork_and_return(way="return"):
    """Return, or raise, in two processes; the one that was forked has its exit code returned."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if way == "exit":
        sys.exit(3)
    if way == "raise":
        raise ValueError("in the fork")
    return "from the fork"


@background(max_attempts=1, timeout=30)
async def afork_and_return(way="return"):
    return fork_and_return.func(way)


@background(max_attempts=1)
def leave_process_behind():
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)).start()
    os._exit(3)


@background
def hold_interpreter(seconds):
    """Stay in one C call, so that no other thread of the process runs; the regular expression can't be interrupted."""
    note("begin")
    end = time.monotonic() + seconds
    length = 20
    while time.monotonic() < end:
        started = time.monotonic()
        re.match(r"(a+)+b", "a" * length)
        if 2 * (time.monotonic() - started) < end - time.monotonic():
            length += 1
    note("end")


@background(timeout=0.3, max_attempts=1)
def overrun(way):
    note("begin", way)
    if way == "loop":
        while True:
            pass
    if way == "swallow":
        try:
            wait_for_note("never", 5)
        except TimeoutError:
            return "in time"
    if way == "sleep":
        time.sleep(30)
    return None


@background(timeout=0.3, max_attempts=1)
async def aoverrun():
    await asyncio.sleep(30)


@background(max_attempts=1)
async def block_event_loop():
    time.sleep(60)  # noqa: ASYNC251  # as a careless task does


@background(timeout=0.3, max_attempts=1)
async def block_shared_thread():
    """Leave the thread that coroutines share stuck, with a connection that is to be looked at."""
    await sync_to_async(connection.ensure_connection)()
    note("begin")
    await sync_to_async(time.sleep)(60)


@background(takes_context=True)
def tell_lease(context, until="go"):
    """Wait until the lease is lost or someone asks for an end, and note which."""
    note("begin", context.attempt)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not context.lease_lost and not context.cancel_requested:
        time.sleep(0.01)
    note("lost" if context.lease_lost else "cancelled" if context.cancel_requested else "nothing")


@background(max_attempts=1)
def fail_with_much():
    large = ["x" * 100] * 1000 + [object() for _ in range(1000)]
    raise ValueError("y" * 20_000, len(large))


@background
def count_frozen():
    return gc.get_freeze_count()


@background
def name_it(name):
    note(name)


@background(max_attempts=1)
def end_forked_process():
    """Start a process that does nothing, and end it as `multiprocessing` does."""
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(5)
    return process.exitcode
