"""What all pages have in common: nothing is edited, and each has the strip on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets, quote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from . import tabs
from .source import PARAMETER, Source

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """Shows things that nobody adds, changes or deletes, except by actions of their own."""

    list_per_page = 50
    list_max_show_all = 0
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/django_taskq/change_list.html"
    change_form_template = "admin/django_taskq/change_form.html"

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

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        raise PermissionDenied

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        raise PermissionDenied

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        raise PermissionDenied

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
