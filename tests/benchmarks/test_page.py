"""The published page says what was measured."""

from __future__ import annotations

import json

from benchmarks import page


def test_the_page_shows_the_measurements_that_are_kept():
    assert page.kept(), "no measurements are kept"
    text = page.PAGE.read_text()
    assert page.filled(text, page.kept()) == text, "run: python -m benchmarks publish FILE..."


def test_a_table_between_markers_is_made_anew_and_the_rest_stays(tmp_path):
    path = tmp_path / "one.jsonl"
    line = {"peer": "huey", "variant": "thread", "case": "latency", "n": 1, "round": 1, "p50_ms": 1.5}
    path.write_text(json.dumps(line) + "\n")
    filled = page.filled("before\n<!-- measured: latency -->\nold\n<!-- end -->\nafter\n", [path])
    assert filled.startswith("before\n<!-- measured: latency -->\n")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "huey:thread | 1.50" in filled
    assert "old" not in filled
