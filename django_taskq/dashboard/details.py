"""One record on a page of its own: what it is, with what it was called, and how each attempt went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..broker.envelope import DEFAULT_MAX_ATTEMPTS
from ..broker.exceptions import UnreadableRecord
from ..broker.records import Attempt, AttemptError, Record
from .display import block, duration, exact, pretty, shorten, visible

#: Characters of an attempt's traceback that a page shows, but of the last one, which is shown as far as it is kept.
_TRACEBACK = 16_384


@dataclass(frozen=True)
class Detail:
    """A record as its page shows it. `now` is Redis's clock when it was read."""

    record: Record
    now: int

    def __str__(self) -> str:
        return f"{self.task} {self.record.id}"

    @property
    def document(self) -> dict[str, Any]:
        """The envelope's members, as far as it is a JSON object."""
        try:
            found = json.loads(self.record.envelope_bytes)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def problem(self) -> str:
        """What can't be read of it here; empty when all can."""
        try:
            self.record.envelope  # noqa: B018
        except UnreadableRecord as error:
            return _("Undecodable (%(size)s bytes): %(error)s") % {
                "size": len(self.record.envelope_bytes),
                "error": shorten(visible(error), 300),
            }
        if not self.record.state.is_known:
            return _("Its state is “%s”, which isn't known here.") % shorten(visible(self.record.state), 300)
        return ""

    @property
    def task(self) -> str:
        name = self.document.get("name")
        return visible(name) if isinstance(name, str) and name else _("(undecodable)")

    @property
    def max_attempts(self) -> int:
        found = self.document.get("max_attempts", DEFAULT_MAX_ATTEMPTS)
        return found if isinstance(found, int) else 0

    @property
    def error(self) -> AttemptError | None:
        return self.record.history[-1].error if self.record.history else None

    def arguments(self, name: str, empty: Any) -> str | SafeString:
        """Return args or kwargs, with secrets starred out."""
        if not self.document:
            return self.problem
        return pretty(self.document.get(name, empty))

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """Every attempt that is remembered, the latest first."""
        history = self.record.history
        return [_shown(attempt, index == len(history) - 1) for index, attempt in enumerate(history)][::-1]


def _shown(attempt: Attempt, last: bool) -> dict[str, Any]:
    error = attempt.error
    took = attempt.ended_at - attempt.started_at if attempt.started_at and attempt.ended_at else None
    return {
        "number": attempt.attempt,
        "token": attempt.token or "-",
        "worker": visible(attempt.child) or "-",
        "started": exact(attempt.started_at),
        "ended": exact(attempt.ended_at),
        "took": "-" if took is None else duration(took),
        "error": error_text(error, 300) if error else "",
        "traceback": block(error.traceback, *([] if last else [_TRACEBACK])) if error and error.traceback else "",
    }


def error_text(error: AttemptError | None, length: int) -> str:
    """Return the class and the message of an error, or the queue's own reason, in one line."""
    if error is None:
        return "-"
    texts: Sequence[str] = [text for text in (error.error, error.message) if text]
    line = ": ".join(texts) or error.reason or "-"
    if error.reason and texts:
        line += f" ({error.reason})"
    return shorten(visible(line), length)


def error_cell(error: AttemptError | None) -> SafeString | str:
    """Return an error for a cell of a list: its class, and below it the start of its message."""
    if error is None:
        return "-"
    name = error.error.rpartition(".")[2] or error.reason or "-"
    message = shorten(visible(error.message.strip()), 200)
    return format_html(
        '<span title="{}">{}</span>{}',
        visible(error.error),
        visible(name),
        format_html('<span class="taskq-quiet">{}</span>', message) if message else "",
    )
