"""Dead letters: what failed for good, why, and what is to become of it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from .bulk import BulkViews
from .details import Detail, error_cell, error_text
from .display import ago, block
from .filters import AFTER, AfterFilter, BackendFilter, ErrorFilter, QueueFilter, TaskFilter
from .operations import DISCARD, RETRY
from .records import RecordAdmin


class DeadLetterAdmin(BulkViews, RecordAdmin):
    place = "dead"
    moment = "died_at"
    list_display = ("task", "queue", "error", "attempts", "died")
    list_filter = (BackendFilter, AfterFilter, QueueFilter, TaskFilter, ErrorFilter)
    default_ordering = ("-died_at",)
    search_help_text = _("All words must be found. Also id: task: queue: error: arg:, as in error:timeout arg:4711.")
    actions = ("retry_selected", "discard_selected")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "error",
                    ("task", "queue"),
                    ("record_id", "idempotency_key"),
                    ("attempts", "priority"),
                    ("died", "enqueued"),
                )
            },
        ),
        (_("Arguments"), {"fields": ("args", "kwargs")}),
        (_("Last error"), {"fields": ("traceback",)}),
    )

    def get_urls(self) -> list[URLPattern]:
        """Put our pages before Django's, whose `<path:object_id>/` matches everything."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        act, follow = (self.admin_site.admin_view(view) for view in (self.operation_view, self.progress_view))
        ours = []
        for verb in (RETRY, DISCARD):
            ours.append(path(f"{verb}/", act, {"verb": verb}, name=f"{name}_{verb}"))
            ours.append(path(f"{verb}/progress/", follow, {"verb": verb}, name=f"{name}_{verb}_progress"))
        return ours + super().get_urls()

    def has_retry_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_permission_to(RETRY, request)

    def has_discard_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_permission_to(DISCARD, request)

    @admin.action(permissions=["retry"], description=_("Retry selected dead letters"))
    def retry_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self.confirm_selected(request, RETRY, queryset)

    @admin.action(permissions=["discard"], description=_("Discard selected dead letters"))
    def discard_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self.confirm_selected(request, DISCARD, queryset)

    def object_context(self, request: HttpRequest, found: Any) -> dict[str, Any]:
        """Return the buttons that this user may press."""
        context = super().object_context(request, found)
        if self.has_retry_permission(request):
            context["retry_url"] = self.url(RETRY)
            context["retry_token"] = self.of_one(request, RETRY, found.shown, found.alias).sign()
        if self.has_discard_permission(request):
            context["discard_url"] = self.url(DISCARD, key=found.pk, **self.came_from(request))
        return context

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        """Return the links that act on all that is shown."""
        query = changelist.get_query_string(remove=["o", AFTER])
        labels = {RETRY: _("Retry all matching…"), DISCARD: _("Discard all matching…")}
        links = [
            {"url": self.url(verb) + query, "label": label}
            for verb, label in labels.items()
            if changelist.result_count and self.has_permission_to(verb, request)
        ]
        return {**super().list_context(request, changelist), "bulk_links": links}

    @admin.display(description=_("error"))
    def error(self, found: Any) -> str | SafeString:
        if isinstance(found.shown, Detail):
            return error_text(found.shown.error, 4000)
        return error_cell(found.shown.summary.error)

    @admin.display(description=_("died"), ordering="died_at")
    def died(self, found: Any) -> str | SafeString:
        shown = found.shown
        return ago(shown.record.died_at if isinstance(shown, Detail) else shown.entry.score, shown.now)

    @admin.display(description=_("traceback"))
    def traceback(self, found: Any) -> str | SafeString:
        error = found.shown.error
        return block(error.traceback) if error is not None and error.traceback else "-"
