from __future__ import annotations

from django_taskq.broker.records import AttemptError
from tests.broker.helpers import ERROR, RESULT, bury_one, claim, lease_one, message, now, read, score


def test_an_ended_attempt_is_noted_with_its_head(broker):
    lease = lease_one(broker, child="worker.abc")
    broker.retry(lease, 0, ERROR)
    (attempt,) = read(broker, lease.id).history
    assert (attempt.attempt, attempt.token, attempt.child) == (1, lease.token, "worker.abc")
    assert attempt.started_at == lease.claimed_at <= attempt.ended_at <= now(broker)
    assert (attempt.error.error, attempt.error.message, attempt.error.traceback) == (
        "builtins.OSError",
        "no",
        "Traceback",
    )


def test_attempts_are_noted_in_their_order(broker):
    lease = lease_one(broker, child="worker.a")
    broker.retry(lease, 0, ERROR)
    (second,) = claim(broker, child="worker.b").leases
    broker.complete(second, RESULT)
    found = read(broker, lease.id)
    assert [(one.attempt, one.child, one.result) for one in found.history] == [
        (1, "worker.a", None),
        (2, "worker.b", 42),
    ]
    assert found.worker_ids == ["worker.a", "worker.b"]


def numbered(index):
    return AttemptError("E", str(index)).to_json()


def test_the_last_twenty_attempts_stay(broker):
    lease = lease_one(broker)
    for index in range(1, 25):
        broker.retry(lease, 0, numbered(index))
        (lease,) = claim(broker).leases
    lines = broker.client.lrange(broker.keys.log(lease.id), 0, -1)
    assert [message(line) for line in lines] == [str(index) for index in range(5, 25)]
    found = read(broker, lease.id)
    assert (found.attempts, len(found.round)) == (25, 20)
    assert found.worker_ids == [""] * 4 + ["worker.child"] * 21


def test_twenty_of_all_rounds_stay_and_a_round_is_told_apart(broker):
    record_id, _ = bury_one(broker)
    for index in range(25):
        broker.requeue([(record_id, score(broker, record_id, "dead"), 0)])
        (lease,) = claim(broker, child=f"worker.{index}").leases
        broker.bury(lease, numbered(index))
    found = read(broker, record_id)
    assert (len(found.history), len(found.round), found.attempts) == (20, 1, 1)
    assert found.worker_ids == ["worker.24"]


def test_a_new_round_begins_without_attempts(broker):
    record_id, died_at = bury_one(broker)
    broker.requeue([(record_id, died_at, 0)])
    found = read(broker, record_id)
    assert (len(found.history), found.round, found.worker_ids) == (1, (), [])


def test_a_result_of_any_size_is_kept_whole(broker):
    lease = lease_one(broker)
    broker.complete(lease, b'{"result":"' + b"x" * 2_000_000 + b'"}')
    assert len(read(broker, lease.id).result) == 2_000_000


def test_a_log_line_that_cannot_be_read_hides_no_other(broker):
    lease = lease_one(broker)
    broker.client.rpush(broker.keys.log(lease.id), b"\xff garbage")
    broker.complete(lease, RESULT)
    bad, good = read(broker, lease.id).history
    assert (bad.error.reason, good.result) == ("unreadable", 42)
