"""The command of the chaos run: what it keeps, what it prints, how it exits. Nothing is broken here."""

from __future__ import annotations

import json

import pytest

from tests.chaos import __main__ as command
from tests.chaos.forger import Forger
from tests.chaos.plan import Plan


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Give a function that runs the command; each plan for which `fails` holds loses a task."""
    monkeypatch.setattr(command, "ROOT", tmp_path)

    def call(*arguments, fails=lambda plan: False):
        def carry_out(plan, folder, commit):
            forged = Forger()
            forged.add("run", releases=["this tree", "another"], clock=False)
            forged.intent()
            forged.attempt(script=None if fails(plan) else "complete")
            forged.points()
            plan.save(folder / "plan.json")
            (folder / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in forged.events))
            return forged.events

        monkeypatch.setattr(command, "carry_out", carry_out)
        monkeypatch.setattr("sys.argv", ["chaos", *map(str, arguments)])
        return command.main(), capsys.readouterr().out

    return call


def test_a_good_run_leaves_nothing(run, tmp_path):
    code, printed = run("--seed", 5, "--seconds", 20)
    assert code == 0
    assert printed.startswith("seed 5: 20 s, database none")
    assert "clocks are not shifted" in printed
    assert "nothing lost, nothing doubled" in printed
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_bad_run_is_kept_and_can_be_judged_again(run, tmp_path):
    code, printed = run("--seed", 5, fails=lambda plan: True)
    assert code == 1
    assert "VIOLATION lost: r: work of c (accepted) has not ended" in printed
    (kept,) = tmp_path.rglob("history.jsonl")
    assert f"--check {kept}" in printed

    code, printed = run("--check", kept)

    assert code == 1
    assert "VIOLATION lost" in printed


def test_a_bad_run_is_shrunk_to_the_faults_that_matter(run, tmp_path):
    def fails(plan):
        return {"cut connections", "kill child"} <= {fault.kind for fault in plan.faults}

    code, printed = run("--seed", 5, "--seconds", 30, "--shrink", fails=fails)

    assert code == 1
    (smallest,) = tmp_path.rglob("smallest.json")
    assert sorted(fault.kind for fault in Plan.load(smallest).faults) == ["cut connections", "kill child"]
    code, printed = run("--plan", smallest, fails=fails)
    assert (code, printed.partition("\n")[0]) == (1, "seed 5: 30 s, database none, 2 faults")


def test_faults_are_chosen_by_name(run, tmp_path):
    run("--only", "kill child,kill worker", "--without", "kill worker", "--keep", tmp_path / "kept")
    plan = Plan.load(tmp_path / "kept" / "plan.json")
    assert {fault.kind for fault in plan.faults} == {"kill child"}


def test_a_fault_that_is_none_is_refused(run, capsys):
    with pytest.raises(SystemExit):
        run("--only", "kill chidl")
    assert "no such fault: kill chidl" in capsys.readouterr().err
