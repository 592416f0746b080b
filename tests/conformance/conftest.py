"""Django's tests see none of our tests' tasks: a project without an outbox looks into no database for a result."""

from __future__ import annotations

import pytest

from django_taskq import registry

collect_ignore = ["vendor"]


@pytest.fixture(autouse=True)
def no_tasks_of_other_tests(monkeypatch):
    monkeypatch.setattr(registry, "_declared", {})
