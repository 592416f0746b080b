"""The strips on top of each page: which list, and of which backend."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import capfirst

from ..models import DeadLetter, Lease, Queue, TaskRecord
from .display import number
from .source import PARAMETER, Source

#: The lists in the order of their tabs, each with the place whose records it counts.
_PLACES: dict[type[Any], str] = {Queue: "", Lease: "leased", DeadLetter: "dead", TaskRecord: ""}


def tabs(site: AdminSite, request: HttpRequest, source: Source, current: type[Any]) -> list[dict[str, Any]]:
    """Return a tab for each list that this site has and this user may see."""
    query = f"?{urlencode({PARAMETER: source.alias})}" if source.alias != source.default else ""
    found = []
    for model, place in _PLACES.items():
        if not shows(site, request, model):
            continue
        count = source.total(place) if place else len(source.counts)
        found.append(
            {
                "url": _url(site, model, "changelist") + query,
                "label": capfirst(model._meta.verbose_name_plural),
                # Rows aren't counted: a database may take long for that.
                "count": "" if source.error or model is TaskRecord else number(count),
                "current": model is current,
            }
        )
    return found


def links(site: AdminSite, request: HttpRequest, model: type[Any], key: str) -> list[dict[str, Any]]:
    """Return the link to the same task in another list, when this user may see that."""
    if not shows(site, request, model):
        return []
    return [{"url": _url(site, model, "change", key), "label": capfirst(model._meta.verbose_name)}]


def shows(site: AdminSite, request: HttpRequest, model: type[Any]) -> bool:
    """Tell whether a site has the list of a model, and this user may see it."""
    return site.is_registered(model) and site.get_model_admin(model).has_view_permission(request)


def _url(site: AdminSite, model: type[Any], page: str, *keys: str) -> str:
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
    return reverse(name, args=[quote(key) for key in keys], current_app=site.name)


def backends(source: Source, url: str) -> list[dict[str, Any]]:
    """Return a tab for each backend, when there are several."""
    if len(source.aliases) < 2:
        return []
    return [
        {"url": f"{url}?{urlencode({PARAMETER: alias})}", "label": alias, "current": alias == source.alias}
        for alias in source.aliases
    ]
