"""The page of what is promised shows the runs that are kept."""

from __future__ import annotations

import json

import pytest

from tests.chaos import publish


def test_the_page_shows_the_runs_that_are_kept():
    page = publish.PAGE.read_text()
    assert publish.filled(page) == page, "make chaos CHAOS_ARGS='--publish ...' writes it"


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_ten_minutes_on_each_server_lost_and_doubled_nothing(database):
    run = dict(json.loads((publish.KEPT / f"{database}.json").read_text()))
    assert float(run["seconds"]) >= 600
    assert (run["lost"], run["  doubled or missing"], run["other violations"]) == ("0", "0", "0")
    assert int(run["atomic effects"]) > 0
