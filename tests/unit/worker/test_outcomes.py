"""What is said to Redis about an outcome."""

from __future__ import annotations

from django_taskq.broker.records import AttemptError
from django_taskq.broker.retry import RetryPolicy
from django_taskq.broker.settlements import Bury, Complete, Release, Retry
from django_taskq.worker.exceptions import LeaseExpired, TaskTimeout, WorkerLost
from django_taskq.worker.outcomes import Failed, Lost, Released, Succeeded, after_crash, failed, settle, to_settlement
from tests.unit.worker.fakes import FakeBroker, make_lease

POLICY = RetryPolicy(base=3, factor=1, jitter="none")


def test_each_outcome_has_its_settlement():
    lease, error = make_lease(), AttemptError("E")

    assert to_settlement(lease, Succeeded(b"{}", 5)) == Complete(lease, b"{}", 5)
    assert to_settlement(lease, Failed(error, 7)) == Retry(lease, 7, error.to_json())
    assert to_settlement(lease, Failed(error, None)) == Bury(lease, error.to_json())
    assert to_settlement(lease, Released(9, unknown=True)) == Release(lease, 9, unknown=True)
    assert to_settlement(lease, Lost()) is None


def test_a_reapers_settlement_says_that_the_lease_has_lapsed():
    lease, error = make_lease(), AttemptError("E")

    assert to_settlement(lease, Failed(error, 7), lapsed=True) == Retry(lease, 7, error.to_json(), lapsed=True)
    assert to_settlement(lease, Failed(error, None), lapsed=True) == Bury(lease, error.to_json(), lapsed=True)


def test_an_attempt_is_followed_by_another_until_they_are_used_up():
    error = AttemptError("E")

    assert failed(make_lease(attempt=2, backoff=POLICY), error).delay_ms == 3000
    assert failed(make_lease(attempt=3, backoff=POLICY), error).delay_ms is None


def test_a_task_may_choose_the_delay_but_not_one_more_attempt():
    error = AttemptError("E")

    assert failed(make_lease(attempt=2), error, after_ms=10).delay_ms == 10
    assert failed(make_lease(attempt=3), error, after_ms=10).delay_ms is None


def test_what_cannot_be_read_is_buried():
    lease = make_lease()
    broken = type(lease)(**{**vars(lease), "task": b"1 0 default\n\n{broken"})

    assert failed(broken, AttemptError("E")).delay_ms is None


def test_what_a_later_release_wrote_is_left_to_one_that_can_read_it():
    lease = make_lease(attempt=99)
    later = type(lease)(**{**vars(lease), "task": b'1 0 default\n\n{"v":2}'})

    assert 150_000 <= after_crash(later, LeaseExpired).delay_ms <= 300_000


def test_a_crash_is_recorded_with_its_class_and_reason():
    for crash, reason in [(LeaseExpired, "lease expired"), (WorkerLost, "worker lost"), (TaskTimeout, "time limit")]:
        outcome = after_crash(make_lease(), crash)
        assert outcome.error.error == f"django_taskq.worker.exceptions.{crash.__name__}"
        assert outcome.error.reason == reason
        assert outcome.error.message.endswith(".")


def test_settling_returns_the_word_of_redis():
    broker = FakeBroker()
    broker.answers["id1"] = "LEASE_LOST"

    assert settle(broker, make_lease(), Released()) == "LEASE_LOST"
    assert settle(broker, make_lease(), Lost()) == "LEASE_LOST"
    assert len(broker.settled) == 1
