"""The tasks, declared with django_taskq (import after django.setup)."""

import time

from benchmarks import probe
from django_taskq import background


@background
def noop(i, tag):
    probe.mark(i)


@background
def nap(i, tag):
    probe.nap(i)


@background
async def anoop(i, tag):
    probe.mark(i)


@background
async def anap(i, tag):
    await probe.anap(i)


@background
def spend(i, tag):
    """Do nothing: the backlog has no slots on the board."""


@background
def hold(seconds):
    """Keep a thread."""
    time.sleep(seconds)
