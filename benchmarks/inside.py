"""The producer side of a run. Started by the harness with a peer's interpreter:

    python -m benchmarks.inside PEER ACTION '{"n": ..., ...}'

Prints one JSON object: wall and CPU seconds of the measured loop, or what the adapter's own action found.
"""

import asyncio
import gc
import inspect
import json
import os
import sys
import time

from benchmarks import probe
from benchmarks.peer import load

CHUNK = 1000  # tasks per call of a bulk API, the same for all


class Options:
    """What the harness asked for."""

    def __init__(self, given):
        self.given = given
        self.task, self.n, self.warm = given.get("task"), given.get("n", 0), given.get("warm", 0)
        start = given.get("start", 0)
        self.numbers = range(start, start + self.n)
        self.gap = given.get("gap", 0)
        # A string of its own for each length; Redis doesn't compress, so what stands in it doesn't matter.
        self.tag = "x" * given["tag"] if "tag" in given else probe.TAG


def clocks():
    return time.perf_counter(), time.process_time()


def spent(begin):
    end = clocks()
    return {"wall": end[0] - begin[0], "cpu": end[1] - begin[1]}


def run_sync(peer, action, options):
    peer.open()
    gc.collect()
    enqueue, task, tag = peer.enqueue, options.task, options.tag
    if action == "bulk":
        begin = clocks()
        for at in range(0, options.n, CHUNK):
            peer.enqueue_many(task, options.numbers[at : at + CHUNK], tag)
        return spent(begin)
    for i in range(options.n, options.n + options.warm):
        enqueue(task, i, tag)
    begin = clocks()
    if action == "enqueue":
        for i in options.numbers:
            enqueue(task, i, tag)
    else:  # pace
        time.sleep(0.3)
        for i in options.numbers:
            probe.enqueued(i)
            enqueue(task, i, tag)
            time.sleep(options.gap)
    return spent(begin)


async def run_async(peer, action, options):
    await maybe(peer.open())
    gc.collect()
    enqueue, task, tag = peer.enqueue, options.task, options.tag
    if action == "bulk":
        begin = clocks()
        for at in range(0, options.n, CHUNK):
            await peer.enqueue_many(task, options.numbers[at : at + CHUNK], tag)
        return spent(begin)
    for i in range(options.n, options.n + options.warm):
        await enqueue(task, i, tag)
    begin = clocks()
    if action == "enqueue":
        for i in options.numbers:
            await enqueue(task, i, tag)
    else:  # pace
        await asyncio.sleep(0.3)
        for i in options.numbers:
            probe.enqueued(i)
            await enqueue(task, i, tag)
            await asyncio.sleep(options.gap)
    return spent(begin)


async def maybe(value):
    return await value if inspect.isawaitable(value) else value


def run(peer, action, given):
    if action == "prepare":
        outcome = peer.prepare()
        if inspect.isawaitable(outcome):
            asyncio.run(outcome)
        return {}
    if action not in ("enqueue", "bulk", "pace"):  # an action that only this adapter knows
        peer.open()
        return getattr(peer, f"do_{action}")(**given)
    options = Options(given)
    if inspect.iscoroutinefunction(peer.enqueue):
        return asyncio.run(run_async(peer, action, options))
    return run_sync(peer, action, options)


def main():
    name, action, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    result = run(load(name), action, given)
    sys.stdout.flush()
    print(json.dumps(result), flush=True)
    os._exit(0)  # no peer's exit hooks in the way; everything measured is done


if __name__ == "__main__":
    main()
