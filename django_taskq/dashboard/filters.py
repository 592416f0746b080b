"""The filters of the change lists; their choices come from what the list found, not from the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from .display import number, shorten, visible
from .source import PARAMETER

#: Name of the parameter that says where a search goes on.
AFTER = "after"


class FacetFilter(admin.SimpleListFilter):
    """One value of a record, chosen from those that were found."""

    def lookups(self, request: Any, model_admin: Any) -> tuple[()]:
        return ()

    def has_output(self) -> bool:
        return True

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset if self.value() is None else queryset.refine(**{str(self.parameter_name): self.value()})

    def choices(self, changelist: Any) -> Iterator[Any]:
        name = str(self.parameter_name)
        yield {
            "selected": self.value() is None,
            "query_string": changelist.get_query_string(remove=[name, AFTER]),
            "display": _("All"),
        }
        for value, count in changelist.facet(name, self.value()).items():
            label = shorten(visible(value), 60) or _("(undecodable)")
            yield {
                "selected": self.value() == value,
                "query_string": changelist.get_query_string({name: value}, [AFTER]),
                "display": label if count is None else f"{label} ({number(count)})",
            }


class QueueFilter(FacetFilter):
    title = _("queue")
    parameter_name = "queue"


class TaskFilter(FacetFilter):
    title = _("task")
    parameter_name = "task"


class ErrorFilter(FacetFilter):
    title = _("error")
    parameter_name = "error"


class WorkerFilter(FacetFilter):
    title = _("worker")
    parameter_name = "worker"


class HiddenFilter(FacetFilter):
    """Takes a parameter that the page offers elsewhere."""

    title = ""

    def has_output(self) -> bool:
        return False


class BackendFilter(HiddenFilter):
    parameter_name = PARAMETER


class AfterFilter(HiddenFilter):
    parameter_name = AFTER
