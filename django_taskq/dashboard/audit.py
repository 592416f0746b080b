"""Who did what: one entry in Django's log for each action, written before it begins and completed after."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from . import operations
from .display import number, visible
from .operations import Operation

logger = logging.getLogger("django_taskq.admin")

_COUNTS = ("done", "gone", "taken", "orphaned")


def begin(operation: Operation, user: Any, model: type[Model], name: str) -> Operation:
    """Return the operation with its log entry: a new one, or the one of the same operation sent before."""
    content_type = ContentType.objects.get_for_model(model, for_concrete_model=False)
    entry = LogEntry.objects.filter(
        user_id=user.pk,
        content_type=content_type,
        action_time__gte=timezone.now() - timedelta(seconds=operations.MAX_AGE),
        change_message__contains=operation.id,
    ).first()
    if entry is None:
        entry = LogEntry.objects.create(
            user_id=user.pk,
            content_type=content_type,
            object_id=operation.object_id,
            object_repr=visible(name)[:200],
            action_flag=CHANGE if operation.verb == operations.RETRY else DELETION,
            change_message=json.dumps({**operations.describe(operation), **dict.fromkeys(_COUNTS, 0)}),
        )
    return replace(operation, log=entry.pk)


def note(before: Operation, after: Operation) -> None:
    """Add to the log entry what was done since."""
    entry = None if after.log is None else LogEntry.objects.filter(pk=after.log).first()
    if entry is None:
        return
    kept = _read(entry)
    for name in _COUNTS:
        kept[name] = kept.get(name, 0) + getattr(after, name) - getattr(before, name)
    kept.pop("error", None)
    if after.error:
        kept["error"] = after.error
    entry.change_message = json.dumps(kept)
    entry.save(update_fields=["change_message"])
    logger.info("%s of dead letters by user %s: %s", after.verb, after.user, entry.change_message)


def describe(entry: LogEntry) -> str:
    """Return what a log entry says, in a sentence."""
    kept = _read(entry)
    if "action" not in kept:
        return entry.get_change_message()
    verbs = {operations.RETRY: _("Retried."), operations.DISCARD: _("Discarded.")}
    if entry.object_id and kept.get("done"):
        return verbs.get(kept["action"], "")
    failed = {operations.RETRY: _("Tried to retry."), operations.DISCARD: _("Tried to discard.")}
    reason = kept.get("error") or "; ".join(outcomes(kept))
    return f"{failed.get(kept['action'], '')} {reason}".strip()


def outcomes(counts: dict[str, int]) -> list[str]:
    """Return a sentence for each sort of letter that nothing could be done with."""
    gone, taken, orphaned = (counts.get(name, 0) for name in ("gone", "taken", "orphaned"))
    found = []
    if gone:
        text = ngettext("%s was already gone or has changed since", "%s were already gone or have changed since", gone)
        found.append(text % number(gone))
    if taken:
        text = ngettext(
            "%s was skipped: an identical task is already queued",
            "%s were skipped: identical tasks are already queued",
            taken,
        )
        found.append(text % number(taken))
    if orphaned:
        text = ngettext(
            "%s was removed: Redis no longer has its content", "%s were removed: Redis lost their content", orphaned
        )
        found.append(text % number(orphaned))
    return found


def _read(entry: LogEntry) -> dict[str, Any]:
    try:
        found = json.loads(entry.change_message)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
