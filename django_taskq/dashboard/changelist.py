"""Django's change list, over what Redis holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from .display import number
from .filters import AFTER
from .recordset import RecordSet
from .source import PARAMETER, Source

#: Choices that a filter offers at most.
_CHOICES = 30


class RedisChangeList(ChangeList):
    """Shows a page of something that isn't a QuerySet: with `count()`, slices, `refine()` and `order_by()`."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.source = Source.of(request)
        super().__init__(request, *args, **kwargs)
        self.title = str(capfirst(self.opts.verbose_name_plural))

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        specs, self.has_filters, unknown, _duplicates, self.has_active_filters = self.get_filters(request)
        if unknown:
            raise IncorrectLookupParameters(f"There is no filter {', '.join(unknown)}.")
        self.filter_specs = specs
        root: Any = self.root_queryset
        found = root.refine(search=self.query)
        names = [AFTER]
        for spec in specs:
            found = spec.queryset(request, found)
            names += [str(name) for name in spec.expected_parameters() or ()]
        self.clear_all_filters_qs = self.get_query_string(remove=names)
        # A new search begins at the start.
        after = self.params.pop(AFTER, "")
        return found.starting_after(after).order_by(*self.get_ordering(request, found))

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[Any]:
        """Return the first column that can be ordered by, of those that were asked for."""
        for part in str(self.params.get("o", "")).split("."):
            prefix, index = ("-", part[1:]) if part.startswith("-") else ("", part)
            if index.isdecimal() and int(index) < len(self.list_display):
                field = self.get_ordering_field(self.list_display[int(index)])
                if field:
                    return [f"{prefix}{field}"]
        return self._get_default_ordering()

    def _get_default_ordering(self) -> list[str]:
        ordering: tuple[str, ...] = getattr(self.model_admin, "default_ordering", ())
        return list(ordering)

    def get_results(self, request: HttpRequest) -> None:
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
        # A page behind the end shows the last one, so that the filters stay.
        self.page_num = min(max(self.page_num, 1), self.paginator.num_pages)
        self.result_count = self.paginator.count
        self.full_result_count = self.root_queryset.count()
        if self.source.alias != self.source.default:
            # The link beside this number would lead to the other backend.
            self.full_result_count = self.result_count
        self.show_full_result_count = True
        self.show_admin_actions = bool(self.root_queryset.count())
        self.can_show_all = False
        self.multi_page = self.result_count > self.list_per_page
        first = (self.page_num - 1) * self.list_per_page
        # An action never looks at the page, and so doesn't read it.
        self.result_list = SimpleLazyObject(lambda: self.queryset[first : first + self.list_per_page])

    def notes(self) -> Iterator[dict[str, str]]:
        """Yield what is to be said about the list: how far a search went, and why nothing is shown."""
        records = self.queryset
        if self.source.error or not isinstance(records, RecordSet):
            return
        window = records.window
        if records.criteria.looks_inside and not records.criteria.record_id and not window.complete:
            parts = {"first": number(window.start + 1), "total": number(window.total)}
            parts["last"] = number(window.start + window.searched)
            text = _("Searched %(first)s to %(last)s of %(total)s.") % parts
            goes_on = self.get_query_string({AFTER: records.next}) if records.next else ""
            yield {"text": text, "url": goes_on, "link": _("Continue the search")}
        if not self.result_count:
            if records.total:
                yield {"text": _("Nothing matches."), "url": self.clear_all_qs(), "link": _("Clear filters and search")}
            else:
                yield {"text": _("There are none.")}

    def clear_all_qs(self) -> str:
        """Return the query that shows the whole list of this backend."""
        return f"?{urlencode({PARAMETER: self.source.alias})}"

    def facet(self, name: str, selected: str | None) -> Mapping[str, int | None]:
        """Return a filter's choices, each with how many records it would show where that is known."""
        found = self._choices(name)
        if selected is not None and selected not in found:
            found = {selected: None, **found}
        return dict(sorted(found.items()))

    def _choices(self, name: str) -> dict[str, int | None]:
        records = self.queryset
        if not isinstance(records, RecordSet):
            return {}
        if name == "queue":
            counts = {queue: getattr(counts, records.place) for queue, counts in self.source.counts.items()}
            return {queue: None if records.criteria.looks_inside else count for queue, count in counts.items() if count}
        window = records.window
        return {value: count if window.complete else None for value, count in window.facets[name].most_common(_CHOICES)}
