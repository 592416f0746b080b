"""What the pages of leases and of dead letters share."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from ..broker.exceptions import InvalidName
from ..broker.keys import check_id
from ..broker.records import Record
from ..models import TaskRecord
from . import tabs
from .base import RedisModelAdmin
from .details import Detail
from .display import ago, number, visible
from .recordset import RecordSet, Row
from .source import Source


class RecordAdmin(RedisModelAdmin):
    """Lists the records of one place."""

    #: The sorted set whose records are listed, and what a record says that is in it.
    place = ""
    moment = ""

    def get_queryset(self, request: HttpRequest) -> Any:
        return RecordSet(self.model, Source.of(request), self.place)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        source = self.source_of(request, object_id)
        record = self._record(source, object_id)
        if record is None or getattr(record, self.moment) is None:
            return None
        found = self.model(key=object_id)
        found.shown = Detail(record, source.read(lambda inspector: inspector.summaries([])[0], 0))
        return found

    def whereabouts(self, request: HttpRequest, key: str) -> str:
        record = self._record(self.source_of(request, key), key)
        return "" if record is None else visible(record.state)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None)
        if context and "cl" in context:
            context.update(self.list_context(request, context["cl"]))
        return response

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        """Return what the list's template needs besides Django's own."""
        return {"notes": list(changelist.notes())}

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        if kwargs.get("obj") is not None:
            context.update(self.object_context(request, kwargs["obj"]))
        return super().render_change_form(request, context, *args, **kwargs)

    def object_context(self, request: HttpRequest, found: Any) -> dict[str, Any]:
        """Return what a record's own page needs besides Django's own."""
        shown: Detail = found.shown
        title = capfirst(self.opts.verbose_name)
        context = {"title": title, "subtitle": str(found), "attempts": shown.attempts, "problem": shown.problem}
        if TaskRecord.objects.filter(pk=found.identifier).exists():
            context["links"] = tabs.links(self.admin_site, request, TaskRecord, found.identifier)
        return context

    @staticmethod
    def _record(source: Source, key: str) -> Record | None:
        alias, _colon, record_id = key.rpartition(":")
        try:
            check_id(record_id)
        except InvalidName:
            return None
        if alias not in source.aliases:
            return None
        record = source.read(lambda inspector: inspector.record(record_id), None)
        return record if record is not None and record.id == record_id else None

    @admin.display(description=_("task"))
    def task(self, found: Any) -> str | SafeString:
        shown: Row | Detail = found.shown
        if isinstance(shown, Detail):
            return shown.task
        name = _("(undecodable)") if shown.summary.name is None else visible(shown.summary.name)
        return format_html('{}<span class="taskq-quiet taskq-id">{}</span>', name, found.identifier)

    @admin.display(description=_("ID"))
    def record_id(self, found: Any) -> SafeString:
        return format_html("<code>{}</code>", found.identifier)

    @admin.display(description=_("queue"))
    def queue(self, found: Any) -> str:
        shown: Row | Detail = found.shown
        return visible(shown.record.head.queue if isinstance(shown, Detail) else shown.entry.queue)

    @admin.display(description=_("attempts"))
    def attempts(self, found: Any) -> str:
        shown: Row | Detail = found.shown
        made, most = (
            (shown.record.attempts, shown.max_attempts)
            if isinstance(shown, Detail)
            else (shown.summary.attempts, shown.summary.max_attempts)
        )
        return _("%(made)s of %(most)s") % {"made": number(made), "most": number(most)} if most else number(made)

    @admin.display(description=_("enqueued"))
    def enqueued(self, found: Any) -> str | SafeString:
        return ago(found.shown.record.head.enqueued_at, found.shown.now)

    @admin.display(description=_("priority"))
    def priority(self, found: Any) -> int:
        priority: int = found.shown.record.head.priority
        return priority

    @admin.display(description=_("idempotency key"))
    def idempotency_key(self, found: Any) -> str:
        return visible(found.shown.record.head.key or "-")

    @admin.display(description=_("positional"))
    def args(self, found: Any) -> str | SafeString:
        arguments: str | SafeString = found.shown.arguments("args", [])
        return arguments

    @admin.display(description=_("by name"))
    def kwargs(self, found: Any) -> str | SafeString:
        arguments: str | SafeString = found.shown.arguments("kwargs", {})
        return arguments
