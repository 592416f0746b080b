"""`task_started` and `task_finished`, sent where the task runs; a result is made only when somebody looks."""

from __future__ import annotations

import logging

from django.conf import settings
from django.dispatch import Signal
from django.utils.log import RequireDebugFalse, RequireDebugTrue

from .compat import TaskResult, signals

logger = logging.getLogger("django_taskq.worker")

#: Where Django's own receivers write their lines.
_lines: logging.Logger = signals.logger
_WRITERS = {id(signals.log_task_enqueued), id(signals.log_task_started), id(signals.log_task_finished)}


def is_heard(signal: Signal, level: int) -> bool:
    """Tell whether anyone would notice a signal: a receiver, or a log handler by way of Django's own."""
    return bool(signal.receivers) and (_has_receivers(signal) or _is_written(level))


def announce(signal: Signal, sender: type, result: TaskResult) -> None:
    """Send a signal; what a receiver raises is logged and changes nothing."""
    try:
        signal.send_robust(sender, task_result=result)
    except BaseException:
        logger.exception("A receiver of %s failed", _name(signal))


async def aannounce(signal: Signal, sender: type, result: TaskResult) -> None:
    """See announce(). Receivers that are functions run where a coroutine's queries do."""
    if not _has_receivers(signal):
        announce(signal, sender, result)
        return
    try:
        await signal.asend_robust(sender, task_result=result)
    except BaseException:
        logger.exception("A receiver of %s failed", _name(signal))


def _has_receivers(signal: Signal) -> bool:
    """Tell whether there are receivers besides Django's; the first part of a receiver's key is its id()."""
    for each in signal.receivers:  # noqa: SIM110 - asked twice for each task, and any() takes three times as long
        if each[0][0] not in _WRITERS:
            return True
    return False


def _is_written(level: int) -> bool:
    """Tell whether some handler takes the lines that Django writes.

    Its default settings enable INFO and give it only to handlers that refuse it, so that the logger's answer
    alone would cost every task two lines that nobody sees.
    """
    if not _lines.isEnabledFor(level):
        return False
    # A handler that DEBUG makes refuse every line.
    refusing = RequireDebugFalse if settings.DEBUG else RequireDebugTrue
    logger: logging.Logger | None = _lines
    has_handlers = False
    while logger is not None:
        for handler in logger.handlers:
            has_handlers = True
            if handler.level <= level and not any(isinstance(each, refusing) for each in handler.filters):
                return True
        logger = logger.parent if logger.propagate else None
    return not has_handlers and level >= logging.WARNING  # logging's handler of last resort


def _name(signal: Signal) -> str:
    return "task_started" if signal is signals.task_started else "task_finished"
