"""Task records: what the database keeps of tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from .. import registry, rows
from ..models import DeadLetter, TaskRecord
from ..results import milliseconds_of
from . import tabs
from .details import Detail
from .display import ago, block, duration, number, pretty, visible
from .filters import BackendFilter
from .readonly import ReadOnlyAdmin
from .source import Source

#: Of how many of the latest rows the task filter offers the names.
_SAMPLE = 500


class TaskFilter(admin.SimpleListFilter):
    """Offers the tasks that are declared and those of the latest rows, for all rows there are too many."""

    title = _("task")
    parameter_name = "task"

    def lookups(self, request: Any, model_admin: Any) -> Iterator[tuple[str, str]]:
        latest = TaskRecord.objects.filter(backend=Source.of(request).alias).order_by("-finished_at")
        names = {*registry.names(), *latest.values_list("task", flat=True)[:_SAMPLE]}
        if self.value() is not None:
            names.add(str(self.value()))
        return ((name, visible(name)) for name in sorted(names))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() is None else queryset.filter(task=self.value())


class TaskRecordAdmin(ReadOnlyAdmin):
    list_display = ("task_name", "queue_name", "status", "attempts", "enqueued", "finished", "took", "worker_name")
    list_filter = (BackendFilter, "status", TaskFilter)
    search_fields = ("id__exact",)
    search_help_text = _("The whole ID.")
    ordering = ("-finished_at",)
    show_full_result_count = False
    actions = None
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("bare_name", "status"),
                    ("record_id", "idempotency"),
                    ("queue_name", "priority"),
                    ("attempts", "token"),
                    ("enqueued", "started"),
                    ("finished", "took"),
                    ("backend_name", "worker_name"),
                )
            },
        ),
        (_("Arguments"), {"fields": ("positional", "by_name")}),
        (_("Outcome"), {"fields": ("result_text", "traceback")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Keep the list to the backend that is chosen; a row's own page is found under any."""
        found = super().get_queryset(request)
        view = request.resolver_match.url_name if request.resolver_match else ""
        return found.filter(backend=Source.of(request).alias) if str(view).endswith("_changelist") else found

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {**self.page_context(request), "title": capfirst(self.opts.verbose_name_plural)}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {**self.page_context(request), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        row = kwargs.get("obj")
        if row is not None:
            subtitle = f"{visible(row.task)} {visible(row.pk)}"
            context.update(title=capfirst(self.opts.verbose_name), subtitle=subtitle, attempts=detail(row).attempts)
            if row.status == TaskRecord.Status.DEAD:
                context["links"] = tabs.links(self.admin_site, request, DeadLetter, f"{row.backend}:{row.pk}")
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("task"))
    def task_name(self, row: TaskRecord) -> SafeString:
        return format_html('{}<span class="taskq-quiet taskq-id">{}</span>', visible(row.task), visible(row.pk))

    @admin.display(description=_("task"))
    def bare_name(self, row: TaskRecord) -> str:
        return visible(row.task)

    @admin.display(description=_("ID"))
    def record_id(self, row: TaskRecord) -> SafeString:
        return format_html("<code>{}</code>", visible(row.pk))

    @admin.display(description=_("queue"))
    def queue_name(self, row: TaskRecord) -> str:
        return visible(row.queue)

    @admin.display(description=_("worker"))
    def worker_name(self, row: TaskRecord) -> str:
        return visible(row.worker) or "-"

    @admin.display(description=_("backend"))
    def backend_name(self, row: TaskRecord) -> str:
        return visible(row.backend)

    @admin.display(description=_("idempotency key"))
    def idempotency(self, row: TaskRecord) -> str:
        return visible(row.idempotency_key) or "-"

    @admin.display(description=_("enqueued"))
    def enqueued(self, row: TaskRecord) -> str | SafeString:
        return _ago(row.enqueued_at)

    @admin.display(description=_("started"))
    def started(self, row: TaskRecord) -> str | SafeString:
        return _ago(row.started_at)

    @admin.display(description=_("finished"), ordering="finished_at")
    def finished(self, row: TaskRecord) -> str | SafeString:
        return _ago(row.finished_at)

    @admin.display(description=_("took"))
    def took(self, row: TaskRecord) -> str:
        if row.last_attempted_at is None or row.finished_at is None:
            return "-"
        return duration(int((row.finished_at - row.last_attempted_at).total_seconds() * 1000))

    @admin.display(description=_("positional"))
    def positional(self, row: TaskRecord) -> str | SafeString:
        return detail(row).arguments("args", [])

    @admin.display(description=_("by name"))
    def by_name(self, row: TaskRecord) -> str | SafeString:
        return detail(row).arguments("kwargs", {})

    @admin.display(description=_("result"))
    def result_text(self, row: TaskRecord) -> str | SafeString:
        if not row.result:
            return "-"
        try:
            return pretty(json.loads(row.result))
        except (ValueError, RecursionError):
            return _("undecodable (%s characters)") % number(len(row.result))

    @admin.display(description=_("traceback"))
    def traceback(self, row: TaskRecord) -> str | SafeString:
        error = detail(row).error
        return block(error.traceback) if error is not None and error.traceback else "-"


def detail(row: TaskRecord) -> Detail:
    """Return a row as the record that it was made of."""
    return Detail(rows.to_record(row), 0)


def _ago(when: Any) -> str | SafeString:
    return "-" if when is None else ago(milliseconds_of(when), milliseconds_of(timezone.now()))
