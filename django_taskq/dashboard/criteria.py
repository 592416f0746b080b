"""Which records a page is about: the filters and the search that a person chose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from ..broker.summaries import Summary
from .display import compact

#: The filters that must look into a record; the queue is known without.
FACETS = ("task", "error", "worker")
_TERM = re.compile(r'(?:(id|task|queue|error|arg|worker):)?("[^"]*"|\S+)', re.IGNORECASE)
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


@dataclass(frozen=True)
class Criteria:
    """Exact filters, and a search whose terms must all be found."""

    queue: str | None = None
    task: str | None = None
    error: str | None = None
    worker: str | None = None
    search: str = ""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Criteria:
        """Return the criteria that a mapping of their names holds."""
        texts = {name: str(found[name]) for name in ("queue", "task", "error", "worker") if found.get(name) is not None}
        return cls(search=str(found.get("search") or ""), **texts)

    def to_dict(self) -> dict[str, str]:
        """Return what was chosen. An empty filter is one: it stands for what can't be read."""
        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        return chosen if self.search else {name: value for name, value in chosen.items() if name != "search"}

    def but(self, **changed: Any) -> Criteria:
        return replace(self, **changed)

    @cached_property
    def terms(self) -> list[tuple[str, str]]:
        """The search's terms: where to look (empty: everywhere) and for which text, in lower case."""
        return [(match[1].lower() if match[1] else "", match[2].strip('"').lower()) for match in self._parsed]

    @property
    def record_id(self) -> str | None:
        """The id, when the search is for that of one record."""
        if len(self._parsed) == 1 and (self._parsed[0][1] or "id").lower() == "id":
            text = self._parsed[0][2].strip('"').upper()
            return text if _ID.fullmatch(text) else None
        return None

    @property
    def looks_inside(self) -> bool:
        """Tell whether records must be read to find those that are meant."""
        return bool(self.terms) or any(getattr(self, name) is not None for name in FACETS)

    def misses(self, found: Summary, queue: str) -> list[str]:
        """Return which of the criteria a record doesn't meet."""
        missed = [] if self.queue in (None, queue) else ["queue"]
        for name in FACETS:
            wanted = getattr(self, name)
            if wanted is not None and wanted != facet(found, name):
                missed.append(name)
        if self.terms and not (len(missed) > 1 or self._finds(found, queue)):
            missed.append("search")
        return missed

    def meets(self, found: Summary, queue: str) -> bool:
        return not self.misses(found, queue)

    def _finds(self, found: Summary, queue: str) -> bool:
        texts = {
            "id": found.id,
            "task": found.name or "",
            "queue": queue,
            "worker": found.worker,
            "error": f"{found.error.error} {found.error.message} {found.error.reason}" if found.error else "",
            # What is starred out isn't found either: a search must not tell a secret letter by letter.
            "arg": _arguments(found) if any(where in ("", "arg") for where, _ in self.terms) else "",
        }
        lowered = {name: text.lower() for name, text in texts.items()}
        return all(
            text in lowered[where] if where else any(text in value for value in lowered.values())
            for where, text in self.terms
        )

    @cached_property
    def _parsed(self) -> list[re.Match[str]]:
        return list(_TERM.finditer(self.search))


def facet(found: Summary, name: str) -> str:
    """Return what a record has under the name of a filter, fit for an address; empty when it is unknown."""
    texts = {"task": found.name or "", "worker": found.worker, "error": error_name(found)}
    text = texts[name]
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def error_name(found: Summary) -> str:
    """Return the class of the last error, or the queue's own reason where there was no exception."""
    return (found.error.error or found.error.reason) if found.error else ""


def _arguments(found: Summary) -> str:
    try:
        return f"{compact(found.document.get('args') or [])} {compact(found.document.get('kwargs') or {})}"
    except (ValueError, RecursionError):
        return ""
