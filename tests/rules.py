"""The rules that hold whatever happens to a task."""

from __future__ import annotations

from collections.abc import Iterable

from django_taskq.broker.exceptions import UnreadableRecord
from django_taskq.broker.records import Record

ENDED = {"succeeded", "dead", "cancelled"}


def check_rules(records: Iterable[Record | None]) -> None:
    """Check that each task is there, ended once, under tokens that grew, and with no attempt too many."""
    for record in records:
        assert record is not None, "an accepted task disappeared"
        assert record.state in ENDED, f"{record.id} is {record.state}"
        successes = [attempt for attempt in record.history if attempt.error is None]
        assert len(successes) == (record.state == "succeeded"), f"{record.id} succeeded {len(successes)} times"
        tokens = [attempt.token for attempt in record.history]
        assert tokens == sorted(set(tokens)), f"tokens of {record.id} don't grow: {tokens}"
        assert not tokens or tokens[-1] <= record.token
        numbers = [attempt.attempt for attempt in record.round]
        assert numbers == list(range(1, record.attempts + 1))[-len(numbers) :], f"attempts of {record.id}: {numbers}"
        try:
            most = record.envelope.max_attempts
        except UnreadableRecord:
            most = 1
        assert record.attempts <= most, f"{record.id} had {record.attempts} attempts"
