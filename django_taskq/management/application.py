"""Make Django ready in each process of a worker."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import django
from django.apps import apps

if TYPE_CHECKING:
    from ..execution import Application

logger = logging.getLogger("django_taskq")
backport_logger = logging.getLogger("django_tasks")

_LEVELS = {0: logging.WARNING, 1: logging.INFO}


def connect(alias: str, verbosity: int = 1) -> Application:
    """Make the application of a backend; this is what every process of a worker calls first."""
    load_project()
    configure_logging(verbosity)
    from ..execution import Application

    return Application.connect(alias)


def load_project() -> None:
    """Set Django up, unless it is, and import the modules that declare tasks."""
    if not apps.ready:
        django.setup()
    from .. import registry

    for name in registry.modules():
        try:
            if find_spec(name) is not None:
                import_module(name)
        except (Exception, SystemExit):
            # Its tasks go back to the queue, for a worker that can import it.
            logger.exception("Importing %s failed", name)


def configure_logging(verbosity: int) -> None:
    """Write the worker's log lines to stderr where the project doesn't say what becomes of them."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(process)d %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    if not backport_logger.hasHandlers():
        # So its lines go where those of Django's own `django.tasks` do.
        backport_logger.parent = logging.getLogger("django")
    if logger.level == logging.NOTSET:
        logger.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
