"""How records go to Redis: in pages, some of which are on their way while the reply to one is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .batches import batches
from .client import Client
from .envelope import head_lines
from .exceptions import TaskqError
from .keys import check_id, check_idempotency_key, check_priority, check_queue_name, check_record_alias
from .records import Enqueued, NewRecord, State
from .scripts import Call, outcome, stream
from .settlements import Argument

#: Records in one page, and bytes of their envelopes: few enough that Redis soon has something to do.
PAGE_RECORDS = 250
PAGE_BYTES = 2**20

_STATES = {state.encode(): state for state in State}

#: What became of the records of a page, or why that isn't known.
Page = list[Enqueued] | TaskqError


def enqueue(client: Client, key: str, records: Sequence[NewRecord]) -> Iterable[Page]:
    """Return what became of each page; after an error no more are sent, but some may be on their way."""
    _check(records)
    pages = [records] if len(records) == 1 else list(batches(records, _length, PAGE_RECORDS, PAGE_BYTES))
    if len(pages) != 1:
        return _stream(client, key, pages)
    return [_page(outcome(client, key, Call("enqueue", _arguments(pages[0]))))]  # as most are


def _stream(client: Client, key: str, pages: Sequence[Sequence[NewRecord]]) -> Iterator[Page]:
    failed = False

    def calls() -> Iterator[Call]:
        for page in pages:
            if failed:
                break
            yield Call("enqueue", _arguments(page))

    for reply in stream(client, key, calls()):
        failed = failed or isinstance(reply, TaskqError)
        yield _page(reply)


#: The queue, key and database of the last record that was sent: those of the next are mostly the same.
_checked: tuple[str, str | None, str | None] | None = None


def _check(records: Sequence[NewRecord]) -> None:
    """Raise `InvalidName` before anything is sent."""
    global _checked
    for record in records:
        check_id(record.id)
        check_priority(record.priority)
        names = queue, key, alias = record.queue, record.key, record.record_alias
        if names != _checked:
            check_queue_name(queue)
            if key is not None:
                check_idempotency_key(key)
            if alias is not None:
                check_record_alias(alias)
            _checked = names


def _length(record: NewRecord) -> int:
    return len(record.envelope)


def _arguments(page: Sequence[NewRecord]) -> list[Argument]:
    arguments: list[Argument] = []
    for record in page:
        record_id, queue, envelope, priority, delay_ms, at_ms, key, key_ttl_ms, alias = record
        lines = head_lines(key, key_ttl_ms, alias)
        arguments += (record_id, queue, priority, delay_ms, at_ms, lines, envelope)
    return arguments


def _page(reply: list[Any] | TaskqError) -> Page:
    if isinstance(reply, TaskqError):
        return reply
    parts = iter(reply)
    return [
        Enqueued(
            word.decode(), record_id.decode(), _STATES.get(state) or State(state.decode(errors="replace")), int(at)
        )
        for word, record_id, state, at in zip(parts, parts, parts, parts, strict=True)
    ]
