"""What a user writes, and the types it must have: read by mypy and by pyright, with and without django-stubs.

It is never run. A line that must be refused bears an ignore, and both checkers say so when that isn't needed.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnusedFunction=false

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_type

from django_taskq import BackgroundContext, Bury, EnqueueError, Retry, TaskTimeout, background


@background
def greet(user_id: int, *, loud: bool = False) -> str:
    return f"{user_id} {loud}"


@background(
    queue_name="mail",
    priority=10,
    backend="default",
    name="receipts.send",
    max_attempts=5,
    backoff={"base": 2, "cap": 60},
    timeout=0.5,
    result_ttl=0,
    retry_on=(OSError, TimeoutError),
    bury_on=KeyError,
    on_commit="other",
)
def send(address: str) -> None:
    try:
        raise Retry(after=30)
    except TaskTimeout:
        raise Bury("too slow") from None


@background()
def empty_parentheses(number: float) -> float:
    return number


@background(takes_context=True)
def look(context: BackgroundContext, user_id: int) -> int:
    assert_type(context.attempt, int)
    assert_type(context.fencing_token, int)
    assert_type(context.idempotency_key, str | None)
    assert_type(context.lease_lost, bool)
    assert_type(context.cancel_requested, bool)
    return user_id


@background(timeout=5)
async def fetch(url: str) -> bytes:
    return url.encode()


def wait_longer(exception: BaseException, task_result: object) -> float | None:
    return None if isinstance(exception, KeyError) else 5.0


@background(backoff=wait_longer)
def patient() -> None: ...


@background(name="receipts.render", queue_name="receipts", remote=True)
def render(order_id: int, *, language: str = "en") -> dict[str, str]:
    raise NotImplementedError  # so that no checker misses a value


def calls_keep_their_types() -> None:
    assert_type(greet(1, loud=True), str)
    assert_type(empty_parentheses(1.5), float)
    greet("one")  # type: ignore[arg-type]
    greet(1, quiet=True)  # type: ignore[call-arg]


def enqueuing_checks_the_arguments() -> None:
    result = greet.enqueue(1, loud=True)
    assert_type(result.id, str)
    assert_type(result.enqueued_at, datetime | None)
    assert_type(result.is_finished, bool)
    look.enqueue(5)
    greet.enqueue("one")  # type: ignore[arg-type]
    greet.enqueue()  # type: ignore[call-arg]
    send.enqueue(1)  # type: ignore[arg-type]
    look.enqueue("five")  # type: ignore[arg-type]


def a_remote_task_is_typed_by_its_signature() -> None:
    assert_type(render.enqueue(7, language="de").id, str)
    render.using(idempotency_key="receipt-7").enqueue(7)
    render.enqueue("7")  # type: ignore[arg-type]
    render.enqueue(7, currency="GBP")  # type: ignore[call-arg]


async def awaiting_checks_them_too() -> None:
    assert_type(await fetch("https://example.com"), bytes)
    result = await fetch.aenqueue("https://example.com")
    assert_type(result.id, str)
    await fetch.aenqueue(5)  # type: ignore[arg-type]


def using_keeps_the_signature() -> None:
    later = greet.using(run_after=timedelta(hours=1), priority=50, idempotency_key="k", on_commit=False)
    assert_type(later(1), str)
    later.enqueue(1)
    later.enqueue("one")  # type: ignore[arg-type]
    greet.using(run_after=5)  # type: ignore[arg-type]
    greet.using(max_attempts=5)  # type: ignore[call-arg]


def many_at_once() -> None:
    results = greet.enqueue_many([((1,), {}), ((2,), {"loud": True})])
    assert_type(results[0].id, str)


def what_went_wrong(error: EnqueueError) -> None:
    assert_type(error.ids, tuple[str, ...])
    assert_type(error.maybe_stored, bool)


def declarations_are_checked() -> None:
    background(max_attempt=5)  # type: ignore[call-overload]
    background(timeout="5")  # type: ignore[call-overload]
    background(remote="yes")  # type: ignore[call-overload]
