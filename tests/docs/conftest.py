"""A reader with an empty folder and a Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.project import Project


@pytest.fixture
def project(tmp_path, redis_url) -> Iterator[Project]:
    project = Project(tmp_path, redis_url)
    try:
        yield project
    finally:
        project.stop()
