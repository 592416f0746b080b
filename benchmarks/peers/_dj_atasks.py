"""The two tasks as coroutines, declared with django.tasks (import after django.setup)."""

from django.tasks import task

from benchmarks import probe


@task
async def noop(i, tag):
    probe.mark(i)


@task
async def nap(i, tag):
    await probe.anap(i)
