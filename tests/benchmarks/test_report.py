"""The report of the benchmark: ratios within a round, and what is met."""

from __future__ import annotations

import json

import pytest

from benchmarks import report, targets
from benchmarks.cases import CASES
from benchmarks.peer import all_names, load
from benchmarks.results import Results


@pytest.fixture
def results(tmp_path):
    """Give a function that reads lines as the harness writes them."""

    def read(*lines):
        path = tmp_path / "results.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return Results([path])

    return read


def line(who, case, turn=1, **numbers):
    peer, _, variant = who.partition(":")
    return {"peer": peer, "variant": variant or "default", "case": case, "n": 100, "round": turn, **numbers}


def find(results, what):
    (found,) = [one for one in targets.targets(results) if one.what.startswith(what)]
    return found


def test_a_ratio_is_the_median_of_those_within_each_round(results):
    pairs = [(100, 100), (300, 100), (800, 400)]
    lines = [
        line(who, "drain", turn, per_s=rate)
        for turn, rates in enumerate(pairs, 1)
        for who, rate in zip(("django_taskq", "bullmq"), rates, strict=True)
    ]
    assert find(results(*lines), "drain of no-ops, beside bullmq").measured == 2


def test_a_round_in_which_a_peer_failed_is_left_out_and_named(results):
    found = results(
        line("django_taskq", "drain", 1, per_s=100),
        line("django_taskq", "drain", 2, per_s=100),
        line("bullmq", "drain", 1, error="RuntimeError: no worker"),
        line("bullmq", "drain", 2, per_s=50),
    )
    assert find(found, "drain of no-ops, beside bullmq").measured == 2
    assert "bullmq drain: RuntimeError: no worker" in report.wrong(found)


@pytest.mark.parametrize(("cpu", "met"), [(49.0, "yes"), (51.0, "**no**")])
def test_a_target_says_whether_it_is_met(results, cpu, met):
    assert find(results(line("django_taskq", "drain", worker_cpu_us=cpu)), "worker CPU").row()[-1] == met


def test_what_was_not_measured_counts_as_neither_met_nor_missed(results):
    found = targets.targets(results(line("django_taskq", "drain", per_s=100)))
    assert {one.met for one in found if one.measured is None} == {"not measured"}
    assert "not measured" in targets.table(results(line("django_taskq", "drain", per_s=100)))


def test_a_column_of_which_nothing_was_measured_is_left_out(results):
    table = report.detail(
        results(line("huey:thread", "enqueue", per_s=100), line("bullmq", "enqueue", per_s=50)), "enqueue"
    )
    assert "x bullmq" in table
    assert "x limit:pop" not in table


def test_tasks_that_did_not_run_or_ran_twice_are_named(results):
    found = results(line("huey:thread", "drain", per_s=100, unfinished=3, twice=1))
    assert report.wrong(found) == "- huey:thread drain: 3 not run, 1 run twice"


@pytest.mark.parametrize("name", all_names())
def test_every_adapter_is_read_without_its_library_and_names_cases_that_exist(name):
    peer = load(name)
    for variant in peer.variants:
        assert set(peer.cases(variant)) <= set(CASES)
        assert hasattr(peer, "measure") or peer.plans_for(variant)
    assert peer.note is not None
