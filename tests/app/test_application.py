"""What every process of a worker sets up before it runs a task."""

from __future__ import annotations

import logging

import pytest

from django_taskq.management.application import backport_logger, configure_logging, logger


@pytest.fixture
def unconfigured(monkeypatch):
    """Let the project say nothing of the loggers of a worker, and return the one above them."""
    above = logging.Logger("above")  # Not the root, to which pytest adds handlers.
    for each in (logger, backport_logger):
        monkeypatch.setattr(each, "handlers", [])
        monkeypatch.setattr(each, "parent", above)
        monkeypatch.setattr(each, "propagate", True)
        monkeypatch.setattr(each, "level", logging.NOTSET)
    return above


def test_the_backport_logs_where_django_tasks_does(unconfigured, monkeypatch):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    django_logger = logging.getLogger("django")
    monkeypatch.setattr(django_logger, "handlers", [handler])

    configure_logging(verbosity=1)
    backport_logger.error("Task ended")

    assert lines == ["Task ended"]


def test_a_handler_of_the_project_keeps_the_lines_of_the_backport(unconfigured, monkeypatch):
    monkeypatch.setattr(backport_logger, "handlers", [logging.NullHandler()])

    configure_logging(verbosity=1)

    assert backport_logger.parent is unconfigured
