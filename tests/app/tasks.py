"""Tasks that the tests enqueue."""

from __future__ import annotations

from django_taskq import background
from django_taskq.compat import task


@background
def add(a, b=0):
    return a + b


@background(queue_name="mail", priority=10, max_attempts=5, backoff=2, timeout=0.3, name="send_welcome", result_ttl=0)
def send(user_id):
    return user_id


@background(takes_context=True)
def look(context, *args, **kwargs):
    return context, args, kwargs


@background
def anything(*args, **kwargs):
    return args, kwargs


@background
async def fetch(*args, **kwargs):
    return args, kwargs


@background(name="receipts.render", queue_name="receipts", max_attempts=5, backoff={"base": 3}, remote=True)
def render(order_id, *, language="en"):
    raise AssertionError("it runs elsewhere")


@background(on_commit=False)
def at_once():
    return None


@background(on_commit="other")
def after_other():
    return None


@task
def stock(*args, **kwargs):
    return args, kwargs


def not_a_task():
    return None
