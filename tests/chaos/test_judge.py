"""The judge of a chaos run finds each kind of violation in a history that is forged to have it, and no other."""

from __future__ import annotations

import pytest

from tests.chaos.forger import Forger
from tests.chaos.judge import History, judge
from tests.chaos.report import recoveries, table


@pytest.fixture
def forged():
    return Forger()


@pytest.fixture
def good(forged):
    """Give a history of a plain task that succeeded."""
    forged.intent()
    forged.attempt()
    return forged


@pytest.fixture
def charged(forged):
    """Give a history of an atomic task that has its effect."""
    forged.intent(task="atomic_charge", outbox=True, atomic=True)
    forged.attempt()
    forged.add("effect row", id="r", call="c", token=10)
    return forged


def test_a_good_history_has_no_violation(good):
    good.record()
    assert good.points() == []


def test_a_good_atomic_history_has_no_violation(charged):
    charged.row()
    charged.record()
    assert charged.points() == []


class TestLost:
    def test_an_accepted_task_that_did_not_end(self, forged):
        forged.intent()
        forged.attempt(script=None)
        assert forged.points() == ["lost"]

    def test_an_accepted_task_that_was_never_seen(self, forged):
        forged.intent()
        assert forged.points() == ["lost"]

    def test_a_task_of_which_nobody_knew_that_runs_and_does_not_end(self, forged):
        forged.intent(answer=None)
        forged.attempt(script="retry")
        assert forged.points() == ["lost"]

    def test_a_task_of_which_nobody_knows_may_be_nowhere(self, forged):
        forged.intent(answer="unknown", ids=["r"])
        assert forged.points() == []

    def test_what_redis_forgot_is_excused_without_a_row(self, forged):
        forged.intent()
        forged.lose()
        assert forged.points() == []

    def test_what_was_enqueued_after_a_loss_is_not_excused(self, forged):
        forged.add("fault", kind="flush Redis", since=1, loses=True)
        forged.intent()
        assert forged.points() == ["lost"]

    @pytest.mark.parametrize("status", ["waiting", "running", None])
    def test_a_task_with_a_row_is_never_excused(self, forged, status):
        forged.intent(task="owork", outbox=True)
        forged.lose()
        if status:
            forged.row(status=status, result=None)
        assert forged.points() == ["lost"]

    def test_a_committed_order_without_a_task(self, forged):
        forged.intent(task="owork", outbox=True, ordered=True, answer=None)
        forged.add("order", call="c")
        assert forged.points() == ["lost"]

    def test_a_duplicate_has_ended(self, forged):
        forged.intent(task="owork", outbox=True)
        forged.row(status="duplicate", result=None)
        assert forged.points() == []


class TestEndedTwice:
    def test_under_two_tokens(self, good):
        good.settle(11)
        assert good.points() == ["ended twice"]

    def test_in_two_ways(self, good):
        good.settle(10, "bury")
        assert set(good.points()) >= {"ended twice"}

    def test_asked_again_it_is_the_same_ending(self, good):
        good.settle(10, word="ALREADY")
        assert good.points() == []

    def test_a_stale_settle_is_no_ending(self, good):
        good.settle(9, word="LEASE_LOST")
        assert good.points() == []

    def test_claimed_after_its_end(self, good):
        good.attempt(token=20, number=2, script=None)
        assert good.points() == ["ended twice"]

    def test_what_redis_forgot_may_run_again(self, good):
        good.lose()
        good.attempt(token=20)
        assert good.points() == []

    def test_with_a_row_it_may_be_claimed_and_not_begin(self, charged):
        charged.lose()
        charged.add("claim", id="r", token=20, attempt=1, child="k")
        charged.settle(20)
        charged.row()
        assert charged.points() == []

    def test_with_a_row_a_dead_one_may_begin_again(self, forged):
        forged.intent(task="outbox_fail", outbox=True)
        forged.attempt(script="bury")
        forged.lose()
        forged.attempt(token=20, script="bury")
        forged.row(status="dead", result=None)
        assert forged.points() == []

    def test_with_a_row_it_began_again(self, charged):
        charged.lose()
        charged.attempt(token=20)
        charged.row()
        assert charged.points() == ["ended twice"]

    def test_row_and_record_ended_differently(self, good):
        good.row(status="dead", result=None)
        assert "ended twice" in good.points()

    def test_two_successes_in_one_log(self, good):
        good.record(token=11, attempts=2, history=[(1, 10, None), (2, 11, None)])
        assert good.points() == ["ended twice"]

    def test_dead_with_a_success_in_its_log(self, forged):
        forged.intent(task="fail")
        forged.attempt(script="bury")
        forged.record(state="dead", result=None)
        assert forged.points() == ["ended twice"]


class TestPersons:
    def test_what_was_cancelled_has_ended(self, forged):
        forged.intent(task="owork", outbox=True)
        forged.add("person", id="r", verb="cancel", word="DONE")
        forged.row(status="cancelled", result=None)
        forged.record(state="cancelled", result=None, history=[])
        assert forged.points() == []

    def test_nothing_is_cancelled_by_itself(self, forged):
        forged.intent(task="owork", outbox=True)
        forged.row(status="cancelled", result=None)
        assert forged.points() == ["ended wrongly"]

    @pytest.mark.parametrize(("verb", "word"), [("cancel", "DONE"), ("cancel", "ASKED"), ("discard", "DONE")])
    def test_what_a_person_ended_is_claimed_again(self, forged, verb, word):
        forged.intent()
        forged.attempt(token=5, script=None)
        forged.add("person", id="r", verb=verb, word=word)
        forged.attempt()
        assert forged.points() == ["ended twice"]

    def test_what_a_person_asked_to_end_is_asked_about_by_the_one_who_has_it(self, forged):
        forged.intent()
        forged.attempt(script=None)
        forged.add("person", id="r", verb="cancel", word="ASKED")
        forged.add("claim", id="r", token=10, attempt=1, child="k")
        forged.settle(10)
        assert forged.points() == []

    def test_what_a_person_asked_to_end_was_claimed_without_an_answer(self, forged):
        forged.intent()
        forged.add("person", id="r", verb="cancel", word="ASKED")
        forged.attempt()
        assert forged.points() == []

    def test_what_a_person_ended_is_brought_back_after_a_loss(self, forged):
        forged.intent(task="owork", outbox=True)
        forged.add("person", id="r", verb="cancel", word="DONE")
        forged.lose()
        forged.attempt()
        forged.row()
        assert forged.points() == ["ended twice"]

    def test_what_a_person_retried_ends_once_more(self, forged):
        forged.intent(task="fail")
        forged.attempt(script="bury")
        forged.add("person", id="r", verb="retry", word="DONE")
        forged.attempt(token=20, script="bury")
        assert forged.points() == []

    def test_what_a_person_retried_and_does_not_end(self, forged):
        forged.intent(task="fail")
        forged.attempt(script="bury")
        forged.add("person", id="r", verb="retry", word="DONE")
        forged.record(state="waiting", result=None, history=[(1, 10, "ValueError")])
        assert forged.points() == ["lost"]

    @pytest.mark.parametrize(
        ("word", "forgets", "points"),
        [(None, False, []), ("DONE", True, []), ("DONE", False, ["lost", "ended twice", "rows"])],
    )
    def test_redis_never_heard_of_a_retry_or_forgot_it_and_nobody_repairs_the_row(self, forged, word, forgets, points):
        forged.intent(task="fail")
        forged.attempt(script="bury")
        forged.add("person", id="r", verb="retry", word=word, sent=forged.events[-1]["at"])
        if forgets:
            forged.lose()
        forged.record(state="dead", result=None, history=[(1, 10, "ValueError")])
        forged.row(status="waiting", result=None, outbox=False)
        assert forged.points() == points

    def test_what_was_refused_to_a_person_changes_nothing(self, good):
        good.add("person", id="r", verb="retry", word="CHANGED")
        good.settle(20)
        assert good.points() == ["ended twice"]


class TestStale:
    def test_a_settle_after_a_newer_claim(self, forged):
        forged.intent()
        forged.attempt(script=None)
        forged.add("claim", id="r", token=20, attempt=2, child="l")
        forged.settle(10)
        assert forged.points() == ["stale"]

    def test_a_settle_that_was_sent_before_the_newer_claim(self, forged):
        forged.intent()
        forged.attempt(script=None)
        sent = forged.add("claim", id="r", token=20, attempt=2, child="l")["sent"]
        forged.settle(10, sent=sent)
        assert forged.points() == []

    def test_a_record_that_ended_under_an_older_token(self, good):
        good.record(token=11)
        assert good.points() == ["stale"]


class TestTokens:
    def test_a_smaller_one_later(self, forged):
        forged.intent()
        forged.attempt(token=10, script="retry")
        forged.attempt(token=9, number=2)
        assert "tokens" in forged.points()

    def test_the_same_for_two_children(self, forged):
        forged.intent()
        forged.add("claim", id="r", token=10, attempt=1, child="l")
        forged.attempt(token=10)
        assert set(forged.points()) == {"tokens"}

    def test_the_same_for_a_child_that_asked_again(self, forged):
        forged.intent()
        forged.add("claim", id="r", token=10, attempt=1, child="k")
        forged.attempt(token=10)
        assert forged.points() == []

    def test_a_log_that_goes_back(self, good):
        good.record(attempts=2, history=[(1, 12, "lost"), (2, 10, None)])
        assert good.points() == ["tokens"]

    def test_two_processes_under_one(self, forged):
        forged.intent()
        forged.attempt(script=None, pid=1)
        forged.add("begin", id="r", call="c", token=10, attempt=1, pid=2)
        forged.add("end", id="r", call="c", token=10, attempt=1, pid=1)
        forged.settle(10)
        assert forged.points() == ["one place"]

    def test_a_run_that_is_resumed_by_another_process(self, forged):
        forged.intent()
        forged.attempt(script=None, pid=1)
        forged.add("begin", id="r", call="c", token=10, attempt=1, pid=2)
        forged.add("end", id="r", call="c", token=10, attempt=1, pid=2)
        forged.settle(10)
        assert forged.points() == []


class TestAttempts:
    def test_a_claim_beyond_the_maximum(self, forged):
        forged.intent()
        forged.attempt(number=4)
        forged.record(attempts=3)
        assert forged.points() == ["attempts"]

    @pytest.mark.parametrize(("forgets", "points"), [(True, []), (False, ["attempts"])])
    def test_a_retry_that_redis_forgot_lets_attempts_go_on(self, forged, forgets, points):
        forged.intent(task="fail")
        forged.attempt(number=3, script="bury")
        forged.add("person", id="r", verb="retry", word="DONE", sent=forged.events[-1]["at"])
        if forgets:
            forged.lose()
        forged.attempt(token=20, number=4, script="bury")
        forged.record(state="dead", token=20, attempts=4, result=None, history=[(4, 20, "ValueError")])
        assert forged.points() == points

    def test_a_record_beyond_the_maximum(self, good):
        good.record(attempts=4)
        assert good.points() == ["attempts"]


class TestEndedWrongly:
    def test_what_must_fail_succeeded(self, forged):
        forged.intent(task="atomic_fail")
        forged.attempt()
        assert forged.points() == ["ended wrongly"]

    def test_what_must_succeed_is_dead(self, forged):
        forged.intent()
        forged.attempt(script="bury")
        assert forged.points() == ["ended wrongly"]

    def test_with_the_result_of_another(self, good):
        good.record(result="d")
        assert good.points() == ["ended wrongly"]


class TestNotAccepted:
    @pytest.mark.parametrize("sign", ["claim", "push", "record", "row"])
    def test_what_was_refused_is_seen(self, forged, sign):
        forged.intent(answer="refused")
        if sign == "claim":
            forged.attempt()
        elif sign == "push":
            forged.add("push", id="r", word="STORED")
        else:
            getattr(forged, sign)()
        assert "not accepted" in forged.points()

    def test_what_was_rolled_back_is_seen(self, forged):
        forged.add("intent", call="c", task="work", ordered=True, outbox=False, atomic=False)
        forged.add("rolled back", call="c", id="r")
        forged.attempt()
        assert forged.points() == ["not accepted"]

    def test_what_was_rolled_back_and_never_seen(self, forged):
        forged.add("intent", call="c", task="work", ordered=True, outbox=False, atomic=False)
        forged.add("rolled back", call="c", id="r")
        assert forged.points() == []

    def test_of_a_refused_call_what_was_stored_may_run(self, forged):
        forged.intent(answer="refused", ids=["s"])
        forged.attempt(record="r")
        assert forged.points() == []


class TestAtomic:
    def test_an_effect_twice(self, charged):
        charged.add("effect row", id="r", call="c", token=10)
        charged.row()
        assert charged.points() == ["atomic"]

    def test_no_effect(self, forged):
        forged.intent(task="atomic_charge", outbox=True, atomic=True)
        forged.attempt()
        forged.row()
        assert forged.points() == ["atomic"]

    def test_an_effect_of_a_dead_task(self, forged):
        forged.intent(task="atomic_fail", outbox=True, atomic=True)
        forged.attempt(script="bury")
        forged.add("effect row", id="r", call="c", token=10)
        forged.row(status="dead", result=None)
        assert forged.points() == ["atomic"]

    def test_an_effect_under_another_token(self, charged):
        charged.row(token=11)
        assert charged.points() == ["atomic"]


class TestRows:
    @pytest.mark.parametrize("differing", [{"token": 11}, {"attempts": 2}])
    def test_a_row_that_says_something_else(self, good, differing):
        good.record()
        good.row(outbox=False, **differing)
        assert good.points() == ["rows"]

    def test_an_ended_record_without_a_row(self, good):
        good.record()
        good.row(id="s", call="d", outbox=False, result="d")
        assert good.points() == ["rows"]


class TestRun:
    def test_a_leak(self, good):
        good.add("leak", text="{taskq}:run:r: ended, but it has no TTL")
        assert good.points() == ["leak"]

    @pytest.mark.parametrize(("ordered", "code"), [(False, 0), (False, 1), (False, -11), (True, 1)])
    def test_a_worker_that_ended_as_it_must_not(self, good, ordered, code):
        good.add("exit", worker="worker-1", code=code, ordered=ordered, served=True, began=0)
        assert good.points() == ["worker"]

    @pytest.mark.parametrize("code", [0, 5, -9])
    def test_a_worker_that_ended_as_it_was_told(self, good, code):
        good.add("exit", worker="worker-1", code=code, ordered=True, served=True, began=0)
        assert good.points() == []

    @pytest.mark.parametrize("served", [False, True])
    def test_a_worker_that_could_not_start_without_its_database(self, good, served):
        good.add("fault", kind="restart database", since=good.events[-1]["at"])
        good.add("exit", worker="worker-1", code=1, ordered=False, served=served, began=100)
        assert good.points() == ["worker"] * served

    def test_a_producer_that_failed(self, good):
        good.add("client exit", client="producer-1", code=1)
        assert good.points() == ["worker"]

    def test_work_that_was_left(self, good):
        good.add("not drained", left=["ready r"], count=1)
        assert good.points() == ["worker"]

    def test_a_run_without_an_end(self, good):
        assert [violation.point for violation in judge(good.events)] == ["worker"]


def test_the_summary_counts(charged):
    charged.row()
    charged.add("fault", kind="kill child", since=0, pids=[7])
    charged.points()
    lines = dict(table(charged.events, judge(charged.events)))
    assert (lines["faults"], lines["  kill child"], lines["enqueues"], lines["  accepted"]) == (1, 1, 1, 1)
    assert (lines["tasks that ended"], lines["lost"], lines["atomic effects"], lines["  doubled or missing"]) == (
        1,
        0,
        1,
        0,
    )


def test_the_time_to_recover_is_that_of_each_task_that_was_running(forged):
    forged.intent()
    forged.attempt(script=None, pid=7)
    killed = forged.add("fault", kind="kill child", since=forged.events[-1]["at"] + 0.25, pids=[7])
    forged.attempt(token=20, pid=8)
    found = recoveries(History(forged.events))
    begun_again = next(event["at"] for event in forged.events if event["what"] == "begin" and event["pid"] == 8)
    assert found["a task of a killed child runs again"] == [begun_again - killed["since"]]


def test_who_was_killed_while_acting_has_acted_once():
    begun = {"what": "person", "at": 1.0, "who": "person", "id": "a", "verb": "cancel", "word": None, "sent": 0.5}
    done = {**begun, "at": 2.0, "word": "DONE"}
    assert History([begun]).tasks["a"].may_be_cancelled
    assert [act["word"] for act in History([begun, done]).tasks["a"].acts] == ["DONE"]
