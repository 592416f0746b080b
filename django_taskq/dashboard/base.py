"""What the pages of things in Redis have in common: their lists, their history, and what is said when they are gone."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from .audit import describe
from .changelist import RedisChangeList
from .display import visible
from .readonly import ReadOnlyAdmin
from .source import Source

_HISTORY = 100


class RedisModelAdmin(ReadOnlyAdmin):
    """Shows things that are in Redis."""

    #: Never asked of a database; any value shows the search field.
    search_fields = ("key",)
    object_history_template = "admin/django_taskq/object_history.html"
    #: The order where none is chosen.
    default_ordering: tuple[str, ...] = ()

    def has_permission_to(self, verb: str, request: HttpRequest) -> bool:
        """Tell whether a user may do something to what this page lists, and may see it."""
        codename = f"{self.opts.app_label}.{verb}_{self.opts.model_name}"
        return self.has_view_permission(request) and request.user.has_perm(codename)

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        return True  # The change list refuses what is no filter.

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RedisChangeList]:
        return RedisChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {**self.page_context(request), **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self.source_of(request, unquote(object_id))
        return super().change_view(
            request, object_id, form_url, {**self.page_context(request), **(extra_context or {})}
        )

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what was done to something, whether or not it is still there."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        key = unquote(object_id)
        self.source_of(request, key)
        title = _("Change history: %s") % visible(key.rpartition(":")[2])
        context = {"object": self.model(key=key), "history": self.history(key), **(extra_context or {})}
        return self.page(request, self.object_history_template, title, **context)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        """Answer for something that is gone with what is known of it, instead of leading away."""
        key = unquote(object_id)
        history = self.history(key)
        title = _("%(name)s %(id)s") % {
            "name": capfirst(opts.verbose_name),
            "id": visible(key.rpartition(":")[2]),
        }
        known = {"history": history, "state": self.whereabouts(request, key)}
        response = self.page(request, "admin/django_taskq/gone.html", title, **known)
        response.status_code = 200 if any(known.values()) or Source.of(request).error else 404
        return response

    def whereabouts(self, request: HttpRequest, key: str) -> str:
        """Return what has become of something that is no longer here; empty when that isn't known."""
        return ""

    def history(self, key: str) -> list[dict[str, Any]]:
        """Return who did what to something, the latest first."""
        content_type = ContentType.objects.get_for_model(self.model, for_concrete_model=False)
        entries = LogEntry.objects.filter(content_type=content_type, object_id=key).select_related("user")
        return [
            {"time": entry.action_time, "user": entry.user.get_username(), "text": describe(entry)}
            for entry in entries.order_by("-action_time")[:_HISTORY]
        ]

    def source_of(self, request: HttpRequest, key: str) -> Source:
        """Return the source of the backend that a key names."""
        return Source.of(request, key.rpartition(":")[0])
