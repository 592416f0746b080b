"""What becomes of the leases of a dead child."""

from __future__ import annotations

from django_taskq.worker.board import BEGUN, CLAIMED, ENDED, Held
from django_taskq.worker.exceptions import TaskTimeout, WorkerLost
from django_taskq.worker.recovery import Verdict, judge

BACK, FAILED, ALONE = Verdict.GIVE_BACK, Verdict.HAS_FAILED, Verdict.RUN_ALONE


def verdicts(*states, cause=WorkerLost, culprits=(), alone=False):
    leases = [Held(slot, f"id{slot}", "default", 100 + slot, 1, state, 0.0) for slot, state in enumerate(states)]
    guilty = [leases[slot] for slot in culprits]
    return [verdict for _, verdict in judge(leases, cause, guilty, alone)]


def test_what_had_not_begun_goes_back():
    assert verdicts(CLAIMED, CLAIMED) == [BACK, BACK]


def test_the_only_one_that_ran_has_failed():
    assert verdicts(CLAIMED, BEGUN, CLAIMED) == [BACK, FAILED, BACK]


def test_each_of_several_that_ran_is_run_alone():
    assert verdicts(BEGUN, CLAIMED, BEGUN) == [ALONE, BACK, ALONE]


def test_one_that_had_ended_is_no_suspect_beside_one_that_ran():
    assert verdicts(ENDED, BEGUN) == [ALONE, FAILED]


def test_one_that_had_ended_is_the_suspect_when_nothing_ran():
    assert verdicts(ENDED, CLAIMED) == [FAILED, BACK]
    assert verdicts(ENDED, ENDED) == [ALONE, ALONE]


def test_a_suspect_whose_own_process_died_has_failed():
    assert verdicts(BEGUN, alone=True) == [FAILED]
    assert verdicts(ENDED, alone=True) == [FAILED]
    assert verdicts(CLAIMED, alone=True) == [BACK]


def test_only_those_for_whose_time_limit_it_was_killed_have_failed():
    assert verdicts(BEGUN, BEGUN, ENDED, CLAIMED, cause=TaskTimeout, culprits=[1]) == [BACK, FAILED, BACK, BACK]
    assert verdicts(BEGUN, BEGUN, BEGUN, cause=TaskTimeout, culprits=[0, 2]) == [FAILED, BACK, FAILED]


def test_all_goes_back_when_we_ended_it_ourselves():
    assert verdicts(BEGUN, ENDED, CLAIMED, cause=None) == [BACK, BACK, BACK]
