"""The pages that retry and discard: ask, act, and show how far it has come."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from django.contrib import messages
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..broker.exceptions import TaskqError
from . import audit, operations
from .criteria import Criteria, error_name
from .details import Detail
from .display import number, visible
from .operations import DISCARD, RETRY, Operation
from .recordset import RecordSet
from .source import PARAMETER, Source, explain

if TYPE_CHECKING:
    from .records import RecordAdmin

    Base = RecordAdmin
else:
    Base = object

#: Letters that one operation names; more are meant by a filter.
MOST_CHOSEN = 1000
_GROUPS = 10
#: Where Django's admin keeps the query of the list that one came from.
_FILTERS = "_changelist_filters"


class BulkViews(Base):
    """Lets permitted users retry and discard dead letters: one, some, or all that a list shows."""

    def permit(self, request: HttpRequest, verb: str) -> None:
        if not self.has_permission_to(verb, request):
            raise PermissionDenied

    def operation_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """GET asks whether all that a list shows, or the one with a key, is meant; POST does it."""
        self.permit(request, verb)
        if request.method == "POST":
            return self.perform(request, verb)
        key = request.GET.get("key")
        if key is not None:
            source = self.source_of(request, key)
            records = RecordSet(self.model, source, self.place).filter(pk__in=[key])
        else:
            records = self._listed(request)
        return self.confirm(request, self._operation(request, verb, records), records)

    def progress_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Show how far an operation has come, with a form that goes on."""
        self.permit(request, verb)
        operation = Operation.load(request.GET.get("op", ""), verb, str(request.user.pk))
        if operation is None:
            return self._expired(request)
        self.source_of(request, f"{operation.alias}:")
        title = _("Retrying dead letters") if verb == RETRY else _("Discarding dead letters")
        context = {"operation": operation, "token": operation.sign(), "action": self.url(verb)}
        return self.page(request, "admin/django_taskq/progress.html", title, **context)

    def confirm_selected(self, request: HttpRequest, verb: str, records: RecordSet) -> HttpResponse | None:
        """Ask whether the letters that were ticked, or all that the list shows, are meant."""
        return self.confirm(request, self._operation(request, verb, records), records.starting_after(""))

    def _operation(self, request: HttpRequest, verb: str, records: RecordSet) -> Operation:
        named = records.keys is not None or records.criteria.record_id
        return self.of_chosen(request, verb, records) if named else self.of_all(request, verb, records)

    def of_chosen(self, request: HttpRequest, verb: str, records: RecordSet) -> Operation:
        rows = sorted((found.shown for found in records[:MOST_CHOSEN]), key=lambda row: row.entry.score)
        return Operation(
            verb=verb,
            alias=records.source.alias,
            user=str(request.user.pk),
            chosen=[(row.entry.id, row.entry.score) for row in rows],
            total=len(rows),
            back=_list_query(request),
            name=str(rows[0]) if len(rows) == 1 else "",
        )

    def of_all(self, request: HttpRequest, verb: str, records: RecordSet) -> Operation:
        return Operation(
            verb=verb,
            alias=records.source.alias,
            user=str(request.user.pk),
            criteria=records.criteria.to_dict(),
            until=records.newest,
            total=records.total,
            back=_list_query(request),
        )

    def of_one(self, request: HttpRequest, verb: str, shown: Detail, alias: str) -> Operation:
        """Return what the button on a letter's own page does."""
        return Operation(
            verb=verb,
            alias=alias,
            user=str(request.user.pk),
            chosen=[(shown.record.id, shown.record.died_at or 0)],
            total=1,
            back=request.GET.get(_FILTERS, ""),
            name=str(shown),
        )

    @staticmethod
    def came_from(request: HttpRequest) -> dict[str, str]:
        """Return the query that leads back to the list which a letter's page was reached from."""
        return {_FILTERS: request.GET[_FILTERS]} if _FILTERS in request.GET else {}

    def confirm(self, request: HttpRequest, operation: Operation, records: RecordSet) -> HttpResponse:
        source = records.source
        title = _("Retry dead letters?") if operation.verb == RETRY else _("Discard dead letters?")
        groups: Counter[tuple[str, str]] = Counter()
        if operation.chosen is None:
            for row in records.window.matches:
                groups[visible(row.summary.name or "?"), visible(error_name(row.summary) or "-")] += 1
        context = {
            "operation": operation,
            "token": operation.sign(),
            "action": self.url(operation.verb),
            "back": self._back(operation),
            "letters": records[:MOST_CHOSEN] if operation.chosen is not None else [],
            "missing": len(records.keys or ()) - operation.total if operation.chosen is not None else 0,
            "groups": [(task, error, number(count)) for (task, error), count in groups.most_common(_GROUPS)],
            "count": number(records.count()),
            "total": number(operation.total),
            "partial": operation.chosen is None and records.criteria.looks_inside and not records.window.complete,
            "searched": number(records.window.searched) if operation.chosen is None else "",
            "empty": not source.error and not (operation.chosen or (operation.chosen is None and operation.total)),
            "filters": [(name, visible(value)) for name, value in operation.criteria.items()],
        }
        return self.page(request, "admin/django_taskq/confirm.html", title, **context)

    def perform(self, request: HttpRequest, verb: str) -> HttpResponse:
        operation = Operation.load(request.POST.get("op", ""), verb, str(request.user.pk))
        if operation is None:
            return self._expired(request)
        source = self.source_of(request, f"{operation.alias}:")
        if source.alias != operation.alias:
            return self._expired(request)
        operation = replace(operation, error="")
        if operation.log is None:
            operation = audit.begin(operation, request.user, self.model, self._name(operation))
        before = operation
        deadline = time.monotonic() + operations.SECONDS
        finished = True
        try:
            for step in operations.steps(operation, source.inspector, source.backend.conf.keeps_records):
                operation, finished = step, time.monotonic() < deadline
                if not finished:
                    break
        except (TaskqError, ImproperlyConfigured) as error:
            operation, finished = replace(operation, error=explain(error)), False
        audit.note(before, operation)
        if not finished and operation.chosen is None:
            return HttpResponseRedirect(self.url(f"{verb}_progress", op=operation.sign()))
        self._report(request, operation)
        return HttpResponseRedirect(self._back(operation))

    def _report(self, request: HttpRequest, operation: Operation) -> None:
        if operation.error:
            self.message_user(request, operation.error, messages.ERROR)
            return
        texts = {
            RETRY: ngettext("%s dead letter was retried.", "%s dead letters were retried.", operation.done),
            DISCARD: ngettext("%s dead letter was discarded.", "%s dead letters were discarded.", operation.done),
        }
        level = messages.SUCCESS if operation.done else messages.WARNING
        self.message_user(request, texts[operation.verb] % number(operation.done), level)
        for text in audit.outcomes({"gone": operation.gone, "taken": operation.taken, "orphaned": operation.orphaned}):
            self.message_user(request, f"{text}.", messages.WARNING)

    def _name(self, operation: Operation) -> str:
        """Return what the log calls the letters that are meant."""
        if operation.name:
            return operation.name
        counted = operation.total
        text = ngettext("%s dead letter", "%s dead letters", counted) % number(counted)
        chosen = ", ".join(f"{name} {value}" for name, value in operation.criteria.items())
        return _("all that match %(filter)s, of %(letters)s") % {"filter": chosen, "letters": text} if chosen else text

    def _listed(self, request: HttpRequest) -> RecordSet:
        """Return what the change list shows for the same query."""
        asked = {name: request.GET.get(name) for name in ("queue", "task", "error")}
        criteria = Criteria.of({**asked, "search": request.GET.get("q", "")})
        return RecordSet(self.model, Source.of(request), self.place, criteria, descending=True)

    def _back(self, operation: Operation) -> str:
        return f"{self.url('changelist')}?{operation.back or urlencode({PARAMETER: operation.alias})}"

    def _expired(self, request: HttpRequest) -> HttpResponse:
        self.message_user(request, _("This page is too old. Nothing was changed; please start again."), messages.ERROR)
        return HttpResponseRedirect(self.url("changelist"))


def _list_query(request: HttpRequest) -> str:
    """Return the query of the list that a page was reached from."""
    return request.GET.get(_FILTERS, "") if "key" in request.GET else request.GET.urlencode()
