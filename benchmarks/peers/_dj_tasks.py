"""The two tasks, declared with django.tasks (import after django.setup)."""

from django.tasks import task

from benchmarks import probe


@task
def noop(i, tag):
    probe.mark(i)


@task
def nap(i, tag):
    probe.nap(i)
