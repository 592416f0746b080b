"""The completion board: how every task of every peer reports that it ran.

The board is one file, mapped into memory by whoever touches it. Task number `i` owns slot `i` and nobody else writes
there, so a report is a few stores into shared memory: no system call, no lock, no further command to Redis, nothing
that grows with the number of workers. It costs under a microsecond, and every Python peer the same. A worker that
can't map memory (Node.js) writes the same bytes with one `pwrite`.

All stamps are CLOCK_MONOTONIC nanoseconds, which every process on the machine reads from the same clock
(`time.monotonic_ns` here, `process.hrtime` in Node.js).

A slot, little endian: u64 enqueued, u64 started, u64 ended, u64 runs. `runs` shows tasks that did not run (0) and
tasks that ran twice (2).
"""

import asyncio
import mmap
import os
import struct
import time

SLOT = 32
_U64 = struct.Struct("<Q")

#: True in a process that the harness started inside a peer's environment.
INSIDE = "BENCH_INSIDE" in os.environ
REDIS_HOST = "127.0.0.1"
REDIS_PORT = int(os.environ.get("BENCH_REDIS_PORT", "0"))
REDIS_URL = f"redis://{REDIS_HOST}:{REDIS_PORT}/0"
PG_PORT = int(os.environ.get("BENCH_PG_PORT", "0"))
VARIANT = os.environ.get("BENCH_VARIANT", "")
PLAN = dict(pair.split("=", 1) for pair in os.environ.get("BENCH_PLAN", "").split(",") if pair)
#: What the sleeping task of the IO-bound cases waits.
NAP = 0.010
#: The short string that each task carries beside its number.
TAG = "order-confirmation"

_board = None


def use_redis(port):
    """Say in the harness, whose environment doesn't, where Redis is: adapters build command lines there."""
    global REDIS_PORT, REDIS_URL
    REDIS_PORT, REDIS_URL = port, f"redis://{REDIS_HOST}:{port}/0"


def create(path, slots):
    with open(path, "wb") as file:
        file.truncate(slots * SLOT)


def board():
    """Return the mapped board of this process (opened on first use, kept over fork)."""
    global _board
    if _board is None:
        with open(os.environ["BENCH_BOARD"], "r+b") as file:
            _board = mmap.mmap(file.fileno(), 0)
    return _board


def _put(i, field, value):
    _U64.pack_into(board(), i * SLOT + field * 8, value)


def enqueued(i, at=None):
    """Note when task `i` was enqueued, or is due."""
    _put(i, 0, time.monotonic_ns() if at is None else at)


def ended(i):
    """Return when task `i` reported, 0 if it didn't yet."""
    return _U64.unpack_from(board(), i * SLOT + 16)[0]


def mark(i):
    """Report task `i`: it ran, now."""
    now = time.monotonic_ns()
    view, at = board(), i * SLOT
    (runs,) = _U64.unpack_from(view, at + 24)
    _U64.pack_into(view, at + 8, now)
    _U64.pack_into(view, at + 16, now)
    _U64.pack_into(view, at + 24, runs + 1)


def nap(i):
    """Wait as an IO-bound task of thread, process and greenlet workers does, and report."""
    start = time.monotonic_ns()
    time.sleep(NAP)
    mark(i)
    _put(i, 1, start)


async def anap(i):
    """Wait as an IO-bound coroutine does, and report."""
    start = time.monotonic_ns()
    await asyncio.sleep(NAP)
    mark(i)
    _put(i, 1, start)
