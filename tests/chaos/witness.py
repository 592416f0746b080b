"""Note what a process says to Redis and what it is answered: every push, claim and settle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import wraps
from typing import Any

from django_taskq.broker.broker import Broker
from django_taskq.broker.records import Claim, Enqueued, NewRecord
from django_taskq.broker.settlements import Settlement
from tests.chaos.history import note_all


def install() -> None:
    """Stand at the two methods through which all of it goes; older releases have them too."""
    exchange, enqueue = Broker.exchange, Broker.enqueue

    @wraps(exchange)
    def noting_exchange(self: Broker, settlements: Sequence[Settlement], claim: Claim | None) -> Any:
        sent = time.monotonic()
        words, claimed = exchange(self, settlements, claim)
        events: list[tuple[str, dict[str, Any]]] = [
            (
                "settle",
                {"id": one.lease.id, "token": one.lease.token, "script": one.script, "word": word, "sent": sent},
            )
            for one, word in zip(settlements, words, strict=True)
        ]
        if claim is not None and claimed is not None:
            for lease in claimed.leases:
                held = {"id": lease.id, "token": lease.token, "attempt": lease.attempt, "child": claim.child}
                events.append(("claim", {**held, "sent": sent}))
        note_all(events)
        return words, claimed

    @wraps(enqueue)
    def noting_enqueue(self: Broker, records: Sequence[NewRecord]) -> list[Enqueued]:
        sent = time.monotonic()
        answers = enqueue(self, records)
        note_all(
            ("push", {"id": record.id, "word": answer.word, "by": answer.id, "sent": sent})
            for record, answer in zip(records, answers, strict=True)
        )
        return answers

    Broker.exchange = noting_exchange  # type: ignore[method-assign]
    Broker.enqueue = noting_enqueue  # type: ignore[method-assign]
