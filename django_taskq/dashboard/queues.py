"""Queues: how deep each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from ..broker.inspector import Counts
from ..models import DeadLetter, Lease, Queue
from .base import RedisModelAdmin
from .display import number, visible
from .filters import BackendFilter
from .source import PARAMETER, Source


@dataclass(frozen=True)
class Depths:
    """A queue as a list shows it."""

    name: str
    counts: Counts

    def __str__(self) -> str:
        return visible(self.name)


class QueueSet:
    """The queues of a backend, few enough to be held at once."""

    ordered = True
    verbose_name = Queue._meta.verbose_name
    verbose_name_plural = Queue._meta.verbose_name_plural

    def __init__(self, source: Source, search: str = "", order: str = "name", keys: frozenset[str] | None = None):
        self.source, self.search, self.order, self.keys = source, search, order, keys

    def refine(self, search: str = "") -> QueueSet:
        return QueueSet(self.source, search, self.order, self.keys)

    def starting_after(self, after: str) -> QueueSet:
        return self

    def order_by(self, *names: str) -> QueueSet:
        return QueueSet(self.source, self.search, names[0] if names else "name", self.keys)

    def filter(self, *, pk__in: Iterable[str]) -> QueueSet:
        return QueueSet(self.source, self.search, self.order, frozenset(pk__in))

    def count(self) -> int:
        return len(self._queues)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[Queue]:
        return iter(self[:])

    def __getitem__(self, part: slice) -> list[Queue]:
        return [instance(self.source, queue) for queue in self._queues[part]]

    @cached_property
    def _queues(self) -> list[Depths]:
        found = [
            Depths(name, counts)
            for name, counts in self.source.counts.items()
            if self.search.lower() in name.lower() and (self.keys is None or f"{self.source.alias}:{name}" in self.keys)
        ]
        column = self.order.removeprefix("-")
        found.sort(key=lambda queue: queue.name)
        if column != "name":
            found.sort(key=lambda queue: int(getattr(queue.counts, column)))
        return found[::-1] if self.order.startswith("-") else found


def instance(source: Source, queue: Depths) -> Queue:
    found = Queue(key=f"{source.alias}:{queue.name}")
    found.shown = queue
    return found


class QueueAdmin(RedisModelAdmin):
    list_display = ("name", "ready", "scheduled", "leased", "dead")
    list_filter = (BackendFilter,)
    default_ordering = ("name",)
    fieldsets = ((None, {"fields": list_display}),)

    def get_queryset(self, request: HttpRequest) -> Any:
        return QueueSet(Source.of(request))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        source = self.source_of(request, object_id)
        alias, _colon, name = object_id.rpartition(":")
        if alias != source.alias or name not in source.counts:
            return None
        return instance(source, Depths(name, source.counts[name]))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        if kwargs.get("obj") is not None:
            context.update(title=capfirst(self.opts.verbose_name), subtitle=str(kwargs["obj"]))
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("name"), ordering="name")
    def name(self, found: Any) -> str:
        return str(found.shown)

    @admin.display(description=_("ready"), ordering="ready")
    def ready(self, found: Any) -> str:
        return number(found.shown.counts.ready)

    @admin.display(description=_("scheduled"), ordering="scheduled")
    def scheduled(self, found: Any) -> str:
        return number(found.shown.counts.scheduled)

    @admin.display(description=_("active"), ordering="leased")
    def leased(self, found: Any) -> str | SafeString:
        return self._linked(Lease, found, found.shown.counts.leased)

    @admin.display(description=_("dead"), ordering="dead")
    def dead(self, found: Any) -> str | SafeString:
        return self._linked(DeadLetter, found, found.shown.counts.dead)

    def _linked(self, model: type[Any], found: Any, count: int) -> str | SafeString:
        """Return a number that leads to the list of what it counts."""
        if not count or not self.admin_site.is_registered(model):
            return number(count)
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        query = urlencode({PARAMETER: found.alias, "queue": found.shown.name})
        url = reverse(name, current_app=self.admin_site.name)
        return format_html('<a href="{}?{}">{}</a>', url, query, number(count))
