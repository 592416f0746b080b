"""An exception made into text that can be stored, whatever its author did."""

from __future__ import annotations

import traceback
from types import TracebackType

from .broker.records import AttemptError


def describe(error: BaseException, reason: str = "") -> AttemptError:
    """Return what is recorded of an exception: nothing of it is kept alive. Never raises."""
    kind = type(error)
    return AttemptError(f"{kind.__module__}.{kind.__qualname__}", _message(error), _traceback(error), reason)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as failure:
        return f"(its text can't be shown: {type(failure).__qualname__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, _of_task(error.__traceback__)))
    except BaseException as failure:
        return f"(its traceback can't be shown: {type(failure).__qualname__})"


def _of_task(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package at its top."""
    while frames is not None and frames.tb_next is not None:
        if not frames.tb_frame.f_globals.get("__name__", "").startswith("django_taskq."):
            break
        frames = frames.tb_next
    return frames
