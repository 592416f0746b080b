"""The two tasks that every peer runs, plain and as coroutines."""

from benchmarks import probe


def noop(i, tag):
    probe.mark(i)


def nap(i, tag):
    probe.nap(i)


async def anoop(i, tag):
    probe.mark(i)


async def anap(i, tag):
    await probe.anap(i)
