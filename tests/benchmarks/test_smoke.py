"""The benchmark measures: each case of our adapter in a tiny run, with real servers and processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peer import load
from benchmarks.servers import postgres_tools

ROOT = Path(__file__).resolve().parents[2]
OURS = load("django_taskq")
FURTHER = [case for case in OURS.cases("default") if case not in ("drain", "latency", "scaling-io")]


def need(found, name):
    if not found and os.environ.get("CI") == "true":
        pytest.fail(f"{name} isn't installed, and CI needs it")
    if not found:
        pytest.skip(f"{name} isn't installed")


@pytest.fixture
def bench(tmp_path):
    """Give a function that runs the benchmark and returns its measurements and its output."""
    need(shutil.which("redis-server"), "redis-server")

    def run(who, *cases):
        out = tmp_path / "results.jsonl"
        command = [sys.executable, "-m", "benchmarks", "--smoke", "--no-venv", "--peer", who, "--out", str(out)]
        command += ["--cache", str(tmp_path), *(part for case in cases for part in ("--case", case))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(text) for text in out.read_text().splitlines()]
        measured = [line for line in lines if "variant" in line]
        assert [line["case"] for line in measured] == list(cases)
        assert not [line for line in measured if "error" in line or line.get("unfinished") or line.get("twice")]
        return measured, done.stdout

    return run


def test_a_drain_and_latencies_are_measured_and_reported(bench):
    measured, output = bench("django_taskq:default", "drain", "latency")
    assert measured[0]["per_s"] > 0
    assert 0 < measured[1]["p50_ms"] <= measured[1]["p99_ms"]
    assert "| worker CPU per task | at most 50 µs |" in output
    assert "Nothing: every task ran once." in output


@pytest.mark.slow
@pytest.mark.parametrize("case", FURTHER)
def test_each_further_case_is_measured(bench, case):
    bench("django_taskq:default", case)


@pytest.mark.slow
def test_coroutines_are_measured(bench):
    bench("django_taskq:async", "drain", "coroutines")


@pytest.mark.slow
def test_rows_in_postgresql_are_measured(bench):
    need(postgres_tools(), "PostgreSQL")
    measured, _ = bench("django_taskq:records", "drain")
    assert measured[0]["rows"] == measured[0]["n"]
