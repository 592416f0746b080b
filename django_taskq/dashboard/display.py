"""Texts, times and numbers as the pages show them. Whatever is stored in Redis is text here, never markup."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from django.utils import formats
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.debug import SafeExceptionReporterFilter

#: Characters of one text that a page shows at most.
LONGEST_TEXT = 65_536
#: Characters that would reorder the text around them, that show nothing, or that UTF-8 can't encode.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: object) -> str:
    """Return a text in which control and bidi characters are written out as escapes."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def block(text: str, longest: int = LONGEST_TEXT) -> SafeString:
    """Return a preformatted text; the middle of a very long one is left out."""
    if len(text) > longest:
        half = longest // 2
        left_out = ngettext("%s character left out", "%s characters left out", len(text) - 2 * half)
        text = f"{text[:half]}\n[… {left_out % number(len(text) - 2 * half)} …]\n{text[-half:]}"
    return format_html('<pre class="taskq-text" tabindex="0">{}</pre>', visible(text))


def redacted(value: Any) -> Any:
    """Return a value with stars in place of what its name marks as secret, by Django's own rule."""
    try:
        return SafeExceptionReporterFilter().cleanse_setting("", value)
    except RecursionError:
        return SafeExceptionReporterFilter.cleansed_substitute


def compact(value: Any) -> str:
    """Return JSON in one line, with secrets starred out."""
    return json.dumps(redacted(value), ensure_ascii=False)


def pretty(value: Any) -> SafeString:
    """Return JSON in lines, with secrets starred out."""
    try:
        return block(json.dumps(redacted(value), ensure_ascii=False, indent=2))
    except RecursionError:
        return block(compact(value))


def number(value: int) -> str:
    """Return a number with separators between its thousands, in the user's language."""
    return formats.number_format(value, force_grouping=True)


def moment(milliseconds: int) -> datetime | None:
    """Return a time of Redis's clock in the current time zone; None, when it is no time."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=get_current_timezone())
    except (ValueError, OverflowError, OSError):
        return None


def ago(milliseconds: int | None, now: int) -> str | SafeString:
    """Return how long ago something was, with the exact time as its title."""
    then, present = moment(milliseconds or 0), moment(now)
    if not milliseconds or then is None or present is None:
        return "-"
    if then > present:
        text = _("in %s") % timesince(present, then, depth=1)
    elif (present - then).total_seconds() < 60:
        text = _("%s s ago") % number(int((present - then).total_seconds()))
    else:
        text = _("%s ago") % timesince(then, present, depth=1)
    return time_element(then, text)


def exact(milliseconds: int | None) -> str | SafeString:
    """Return a time to the second."""
    then = moment(milliseconds or 0)
    if not milliseconds or then is None:
        return "-"
    return time_element(then, f"{then:%Y-%m-%d %H:%M:%S}")


def time_element(then: datetime, text: str) -> SafeString:
    title = f"{then:%Y-%m-%d %H:%M:%S %Z}"
    return format_html('<time datetime="{}" title="{}">{}</time>', then.isoformat(timespec="seconds"), title, text)


def duration(milliseconds: int) -> str:
    """Return a span of time in the one or two units that matter."""
    seconds = max(milliseconds, 0) / 1000
    if seconds < 1:
        return _("%s ms") % number(int(seconds * 1000))
    if seconds < 60:
        return _("%s s") % formats.number_format(seconds, 1 if seconds < 10 else 0)
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return _("%(minutes)s min %(seconds)s s") % {"minutes": minutes, "seconds": rest}
    return _("%(hours)s h %(minutes)s min") % {"hours": number(minutes // 60), "minutes": minutes % 60}
