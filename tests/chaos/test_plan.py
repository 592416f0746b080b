"""Plans are drawn, kept, and made smaller."""

from __future__ import annotations

import itertools
import json
import multiprocessing

import pytest

from tests.chaos import history, releases
from tests.chaos.faults import Injector
from tests.chaos.plan import KINDS, Plan, make, possible
from tests.chaos.shrink import shrink


def test_a_seed_decides_a_plan():
    kinds = possible("postgresql")
    assert make(1, 60, "postgresql", kinds) == make(1, 60, "postgresql", kinds)
    assert make(1, 60, "postgresql", kinds) != make(2, 60, "postgresql", kinds)


def test_faults_of_one_subject_do_not_overlap():
    faults = make(1, 600, "postgresql", possible("postgresql")).faults
    assert {fault.kind for fault in faults} == set(KINDS)
    for subject in {kind.subject for kind in KINDS.values()} - {""}:
        some = [fault for fault in faults if KINDS[fault.kind].subject == subject]
        assert all(one.at + one.lasts < other.at for one, other in itertools.pairwise(some))


def test_without_a_database_nothing_is_planned_that_it_would_have_to_repair():
    names = possible("none")
    assert "flush Redis" not in names
    assert "cut database" not in names
    assert "flush Redis" in possible("sqlite")
    assert "cut database" not in possible("sqlite")


def test_a_plan_is_kept(tmp_path):
    plan = make(3, 30, "mariadb", possible("mariadb"))
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_can_be_done(kind):
    assert callable(getattr(Injector, "_" + kind.lower().replace(" ", "_")))


@pytest.mark.parametrize("culprits", [{3}, {2, 17}, {0, 1, 19}, set(range(20))], ids=str)
def test_what_is_left_of_a_plan_is_what_breaks_it(culprits):
    asked = []

    def fails(parts):
        asked.append(parts)
        return culprits <= set(parts)

    assert shrink(range(20), fails) == sorted(culprits)
    assert len(asked) < 150


def test_a_failure_without_any_fault_leaves_none():
    assert shrink(range(5), lambda parts: True) == []


def _note_many(path, name):
    history._file = -1
    history.os.environ[history.FILE] = path
    for number in range(500):
        history.note("x", name=name, number=number)


def test_processes_write_one_history(tmp_path):
    path = tmp_path / "history.jsonl"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_note_many, args=(str(path), name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    found = {(event["name"], event["number"]) for event in history.read(path)}
    assert found == {(name, number) for name in "abc" for number in range(500)}


def test_a_line_that_was_cut_is_refused(tmp_path):
    (tmp_path / "history.jsonl").write_text('{"what":"x"}\n{"wha')
    with pytest.raises(json.JSONDecodeError):
        history.read(tmp_path / "history.jsonl")


def test_where_history_ends_the_older_release_is_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "previous", lambda: None)
    assert releases.older(tmp_path, None).startswith("a copy of this tree")
    assert (tmp_path / "django_taskq" / "lua" / "claim.lua").exists()
