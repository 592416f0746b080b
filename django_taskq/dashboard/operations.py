"""Retry and discard: of chosen dead letters, or of all that meet some criteria, in steps that can be repeated.

What is to be done travels with the pages in a signed token. It says up to which time of death it goes, so what dies
later is never touched; and it names each chosen letter with its time of death, so that one that has died anew isn't
either. Doing it again finds nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from django.core import signing

from ..broker.broker import BATCH_RECORDS
from ..broker.ids import new_id
from ..broker.inspector import Inspector
from ..broker.listing import Entry, oldest_first
from ..closing import Closing
from .criteria import Criteria

RETRY, DISCARD = "retry", "discard"
#: Seconds that one request works on an operation, and that its token is good for.
SECONDS = 2.0
MAX_AGE = 24 * 60 * 60
_SALT = "django_taskq.dashboard.operations"
#: Words of the scripts, and what they are counted as.
_COUNTED = {"DONE": "done", "CHANGED": "gone", "TAKEN": "taken", "ORPHANED": "orphaned"}


@dataclass(frozen=True)
class Operation:
    """What is to be done, and how far it has come."""

    verb: str
    alias: str
    user: str
    #: The chosen letters, each (id, died_at); None for all that meet the criteria.
    chosen: list[tuple[str, int]] | None = None
    criteria: dict[str, str] = field(default_factory=dict)
    #: The last time of death that is meant.
    until: int = 0
    #: How many letters are looked at.
    total: int = 0
    #: The query of the list that it came from.
    back: str = ""
    #: What the log calls the letter, when there is only one.
    name: str = ""
    id: str = field(default_factory=new_id)
    #: The log entry, once it has begun.
    log: int | None = None
    #: The queue, time of death and id of the last letter that was looked at.
    at: tuple[str, int, str] | None = None
    seen: int = 0
    done: int = 0
    gone: int = 0
    taken: int = 0
    orphaned: int = 0
    #: Why it has come to a halt.
    error: str = ""

    def sign(self) -> str:
        return signing.dumps(asdict(self), salt=_SALT, compress=True)

    @classmethod
    def load(cls, token: str, verb: str, user: str) -> Operation | None:
        """Return the operation of a token; None for one that is forged, too old, or of something or somebody else."""
        try:
            found = cls(**signing.loads(token, salt=_SALT, max_age=MAX_AGE))
        except (signing.BadSignature, TypeError):
            return None
        return found if (found.verb, found.user) == (verb, user) else None

    @property
    def skipped(self) -> int:
        return self.gone + self.taken + self.orphaned

    @property
    def object_id(self) -> str | None:
        """The key of the letter, when there is only one."""
        return f"{self.alias}:{self.chosen[0][0]}" if self.chosen is not None and len(self.chosen) == 1 else None

    def progressed(self, words: Sequence[str], seen: int) -> Operation:
        """Return the operation after some letters were looked at, and some of these acted on."""
        counts = {name: words.count(word) + getattr(self, name) for word, name in _COUNTED.items()}
        return replace(self, seen=self.seen + seen, **counts)


def steps(operation: Operation, inspector: Inspector, keeps_rows: bool) -> Iterator[Operation]:
    """Work on an operation, and yield how it stands after each step; one that is given again is gone on with.

    Raises what the broker raises; what the last step that was yielded says is done.
    """
    if operation.chosen is not None:
        words = act(operation.verb, inspector, operation.chosen, keeps_rows)
        yield operation.progressed(words, len(operation.chosen))
        return
    criteria = Criteria.of(operation.criteria)
    for queue in inspector.queues():
        if criteria.queue not in (None, queue) or (operation.at and queue < operation.at[0]):
            continue
        after = (operation.at[1], operation.at[2]) if operation.at and operation.at[0] == queue else None
        while page := oldest_first(inspector.broker, "dead", queue, after, operation.until, BATCH_RECORDS):
            meant = _meant(inspector, criteria, page)
            words = act(operation.verb, inspector, [(entry.id, entry.score) for entry in meant], keeps_rows)
            after = (page[-1].score, page[-1].id)
            operation = replace(operation.progressed(words, len(page)), at=(queue, *after))
            yield operation


def act(verb: str, inspector: Inspector, letters: Sequence[tuple[str, int]], keeps_rows: bool) -> list[str]:
    """Retry or discard letters (id, died_at), their rows first; return a word for each."""
    if not letters:
        return []
    closing = Closing(inspector, keeps_rows)
    return closing.retry(letters) if verb == RETRY else closing.discard(letters)


def _meant(inspector: Inspector, criteria: Criteria, page: Sequence[Entry]) -> Sequence[Entry]:
    if not criteria.looks_inside:
        return page
    _, found = inspector.summaries([entry.id for entry in page])
    return [entry for entry, summary in zip(page, found, strict=True) if criteria.meets(summary, entry.queue)]


def describe(operation: Operation) -> dict[str, Any]:
    """Return what the log keeps of an operation when it begins."""
    kept: dict[str, Any] = {"action": operation.verb, "operation": operation.id, "backend": operation.alias}
    if operation.chosen is not None:
        return {**kept, "selected": len(operation.chosen)}
    return {**kept, "filter": operation.criteria, "until": operation.until}
