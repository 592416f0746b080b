"""The README's quick start, typed in as it stands."""

from __future__ import annotations

import time

import pytest

from tests.docs.project import ROOT

README = (ROOT / "README.md").read_text()


@pytest.mark.timeout(120)
def test_the_quick_start_works_as_written_within_a_minute(project):
    quick_start = README.partition("## Quick start")[2].partition("\n## ")[0]
    begun = time.monotonic()
    project.follow(quick_start)
    assert time.monotonic() - begun < 60
