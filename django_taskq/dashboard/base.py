"""What all pages have in common: read-only models, tabs, and a page for when Redis is down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import flatten_fieldsets, quote, unquote
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from . import tabs
from .audit import describe
from .changelist import RedisChangeList
from .display import visible
from .source import PARAMETER, Source

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

_HISTORY = 100


class RedisModelAdmin(ModelAdmin):
    """An admin of things in Redis: nobody adds, changes or deletes them, except by actions of their own."""

    list_per_page = 50
    list_max_show_all = 0
    #: Never asked of a database; any value shows the search field.
    search_fields = ("key",)
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/django_taskq/change_list.html"
    change_form_template = "admin/django_taskq/change_form.html"
    object_history_template = "admin/django_taskq/object_history.html"
    #: The order where none is chosen.
    default_ordering: tuple[str, ...] = ()

    class Media:
        css = {"all": ["django_taskq/dashboard.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def has_permission_to(self, verb: str, request: HttpRequest) -> bool:
        """Tell whether a user may do something to what this page lists, and may see it."""
        codename = f"{self.opts.app_label}.{verb}_{self.opts.model_name}"
        return self.has_view_permission(request) and request.user.has_perm(codename)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        raise PermissionDenied

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        raise PermissionDenied

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        raise PermissionDenied

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
        response = self.page(request, "admin/django_taskq/gone.html", title, history=history, now=self.whereabouts(key))
        response.status_code = 200 if history or Source.of(request).error else 404
        return response

    def whereabouts(self, key: str) -> str:
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

    def page_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what every page's template needs."""
        source = Source.of(request)
        return {
            "source": source,
            "as_of": f"{timezone.localtime() if settings.USE_TZ else timezone.now():%H:%M:%S}",
            "tabs": tabs.tabs(self.admin_site, request, source, self.model),
            "backends": tabs.backends(source, self.url("changelist")),
            "changelist_url": self.changelist_url(source),
            # From 6.1 on Django's breadcrumbs are a list.
            "breadcrumbs_are_a_list": django.VERSION >= (6, 1),
        }

    def page(self, request: HttpRequest, template: str | None, title: str, **context: Any) -> TemplateResponse:
        """Return a page of our own."""
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            **self.page_context(request),
            "opts": self.opts,
            "title": title,
            "media": self.media,
            "preserved_filters": self.get_preserved_filters(request),
            **context,
        }
        return TemplateResponse(request, template or "", context)

    def url(self, name: str, *arguments: str, **query: str) -> str:
        """Return the address of one of this admin's pages."""
        view = f"admin:{self.opts.app_label}_{self.opts.model_name}_{name}"
        path = reverse(view, args=[quote(argument) for argument in arguments], current_app=self.admin_site.name)
        return f"{path}?{urlencode(query)}" if query else path

    def changelist_url(self, source: Source) -> str:
        return self.url("changelist", **({PARAMETER: source.alias} if source.alias != source.default else {}))
