"""Active leases: what is being worked on, by whom, and for how long it still may."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from .details import Detail
from .display import ago, duration, visible
from .filters import AfterFilter, BackendFilter, QueueFilter, TaskFilter, WorkerFilter
from .records import RecordAdmin
from .recordset import Row

#: A lease that ends later than this counts as lapsed (milliseconds; the scripts' bound).
_FARTHEST = 24 * 60 * 60 * 1000


class LeaseAdmin(RecordAdmin):
    place = "leased"
    moment = "lease_ends_at"
    list_display = ("task", "queue", "worker", "attempts", "token", "time_left")
    list_filter = (BackendFilter, AfterFilter, QueueFilter, TaskFilter, WorkerFilter)
    default_ordering = ("time_left",)
    search_help_text = _("All words must be found. Also id: task: queue: worker: arg:, as in arg:4711.")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("task", "queue"),
                    ("record_id", "idempotency_key"),
                    ("worker", "token"),
                    ("attempts", "cancel_requested"),
                    ("running", "time_left"),
                    ("enqueued", "priority"),
                )
            },
        ),
        (_("Arguments"), {"fields": ("args", "kwargs")}),
    )

    @admin.display(description=_("worker"))
    def worker(self, found: Any) -> str:
        shown: Row | Detail = found.shown
        return visible((shown.record if isinstance(shown, Detail) else shown.summary).worker or "-")

    @admin.display(description=_("fencing token"))
    def token(self, found: Any) -> SafeString:
        shown: Row | Detail = found.shown
        held = shown.record if isinstance(shown, Detail) else shown.summary
        return format_html("<code>{}</code>", held.token)

    @admin.display(description=_("started"))
    def running(self, found: Any) -> str | SafeString:
        shown: Row | Detail = found.shown
        held = shown.record if isinstance(shown, Detail) else shown.summary
        return ago(held.last_attempted_at, shown.now)

    @admin.display(description=_("time left"), ordering="time_left")
    def time_left(self, found: Any) -> str | SafeString:
        shown: Row | Detail = found.shown
        ends_at = (shown.record.lease_ends_at or 0) if isinstance(shown, Detail) else shown.entry.score
        left = ends_at - shown.now
        if not 0 <= left <= _FARTHEST:
            text = _("lapsed %s ago") % duration(-left) if left < 0 else _("lapsed: it ends too far in the future")
            return format_html('<span class="taskq-bad">{}</span>', text)
        return duration(left)

    @admin.display(description=_("asked to cancel"))
    def cancel_requested(self, found: Any) -> str:
        return str(_("yes") if found.shown.record.cancel_requested else _("no"))
