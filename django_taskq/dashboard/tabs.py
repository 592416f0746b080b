"""The strips on top of each page: which list, and of which backend."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import capfirst

from ..models import DeadLetter, Lease, Queue
from .display import number
from .source import PARAMETER, Source

#: The lists in the order of their tabs, each with the place whose records it counts.
_PLACES: dict[type[Any], str] = {Queue: "", Lease: "leased", DeadLetter: "dead"}


def tabs(site: AdminSite, request: HttpRequest, source: Source, current: type[Any]) -> list[dict[str, Any]]:
    """Return a tab for each list that this site has and this user may see."""
    query = f"?{urlencode({PARAMETER: source.alias})}" if source.alias != source.default else ""
    found = []
    for model, place in _PLACES.items():
        if not site.is_registered(model) or not site.get_model_admin(model).has_view_permission(request):
            continue
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        count = source.total(place) if place else len(source.counts)
        found.append(
            {
                "url": reverse(name, current_app=site.name) + query,
                "label": capfirst(model._meta.verbose_name_plural),
                "count": "" if source.error else number(count),
                "current": model is current,
            }
        )
    return found


def backends(source: Source, url: str) -> list[dict[str, Any]]:
    """Return a tab for each backend, when there are several."""
    if len(source.aliases) < 2:
        return []
    return [
        {"url": f"{url}?{urlencode({PARAMETER: alias})}", "label": alias, "current": alias == source.alias}
        for alias in source.aliases
    ]
