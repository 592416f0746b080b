"""Enqueuing with a key that is remembered gives the existing result."""

from __future__ import annotations

import pytest
from django.db.transaction import atomic

from django_taskq.broker.records import Claim
from django_taskq.compat import TaskResultStatus
from django_taskq.context import BackgroundContext
from tests.app import tasks
from tests.waiting import wait_until

RESULT = b'{"result":5}'


def claim(broker, nonce=1):
    return broker.claim(Claim("w.child0001", nonce, 1, 30_000, ("default",))).leases[0]


def test_a_key_that_waits_gives_the_existing_result(backend, sent):
    first = tasks.add.using(idempotency_key="k").enqueue(1)
    second = tasks.add.using(idempotency_key="k").enqueue(2)

    assert second == first
    assert second.args == [1]
    assert len(sent) == 1


def test_a_key_is_one_whatever_the_task_or_queue(backend):
    first = tasks.add.using(idempotency_key="k").enqueue(1)
    second = tasks.send.using(idempotency_key="k").enqueue(2)

    assert second == first
    assert second.task.func is tasks.add.func


def test_a_key_that_runs_or_has_succeeded_gives_the_existing_result(backend):
    made = tasks.add.using(idempotency_key="k")
    first = made.enqueue(1)
    lease = claim(backend.broker)

    assert (made.enqueue(2).id, made.enqueue(2).status) == (first.id, TaskResultStatus.RUNNING)

    backend.broker.complete(lease, RESULT)
    again = made.enqueue(2)

    assert (again.id, again.return_value) == (first.id, 5)


def test_a_key_whose_record_has_a_state_that_is_not_known_gives_its_id(backend, redis_client):
    first = tasks.add.using(idempotency_key="k").enqueue(1)
    redis_client.hset(backend.broker.keys.run(first.id), "state", "paused")
    again = tasks.add.using(idempotency_key="k").enqueue(1)
    assert (again.id, again.enqueued_at) == (first.id, first.enqueued_at)


def test_a_dead_letter_blocks_nothing(backend):
    made = tasks.add.using(idempotency_key="k")
    first = made.enqueue(1)
    backend.broker.bury(claim(backend.broker), b'{"error":"E"}')

    assert made.enqueue(2).id != first.id


def test_the_key_of_a_waiting_task_has_no_end(backend, redis_client):
    tasks.add.using(idempotency_key="k").enqueue(1)

    assert redis_client.pttl("{taskq}:idem:k") == -1


@pytest.mark.parametrize(("ttl", "remembered_ms"), [(0.5, 500), (60, 60_000), (86_400, 86_400_000)])
def test_c65_a_key_is_remembered_as_long_as_the_option_says(with_options, redis_client, ttl, remembered_ms):
    backend = with_options(idempotency_ttl=ttl)
    tasks.add.using(idempotency_key="k").enqueue(1)
    backend.broker.complete(claim(backend.broker), RESULT)

    assert 0 < redis_client.pttl("{taskq}:idem:k") <= remembered_ms


@pytest.mark.parametrize("ttl", [0, 0.05])
def test_c59_a_key_can_be_forgotten_when_its_task_has_succeeded(with_options, redis_client, ttl):
    backend = with_options(idempotency_ttl=ttl)
    made = tasks.add.using(idempotency_key="k")
    first = made.enqueue(1)
    backend.broker.complete(claim(backend.broker), RESULT)
    wait_until(lambda: not redis_client.exists("{taskq}:idem:k"))

    assert made.enqueue(2).id != first.id


@pytest.mark.django_db(transaction=True)
def test_an_id_is_provisional_until_the_commit(backend, sent):
    made = tasks.add.using(idempotency_key="k")
    with atomic():
        result = made.enqueue(2)
        provisional = result.id
        first = made.using(on_commit=False).enqueue(1)
        assert result.id == provisional != first.id

    assert (result.id, result.args, result.enqueued_at) == (first.id, [1], first.enqueued_at)
    assert backend.get_result(provisional) == result
    assert len(sent) == 1


@pytest.mark.django_db(transaction=True)
def test_two_results_of_one_block_become_one(backend):
    made = tasks.add.using(idempotency_key="k")
    with atomic():
        first, second = made.enqueue(1), made.enqueue(2)

    assert second == first


def test_the_provisional_id_is_readable_for_a_minute(backend, redis_client):
    made = tasks.add.using(idempotency_key="k")
    first = made.enqueue(1)
    made.enqueue(2)
    aliases = [key for key in redis_client.keys("{taskq}:task:*") if key != f"{{taskq}}:task:{first.id}".encode()]

    assert len(aliases) == 1
    assert redis_client.pttl(aliases[0]) >= 59_000


def test_one_key_cannot_stand_for_several(backend, redis_client):
    made = tasks.add.using(idempotency_key="k")
    with pytest.raises(ValueError, match="One idempotency key"):
        made.enqueue_many([((1,), {}), ((2,), {})])

    assert redis_client.keys() == []
    assert len(made.enqueue_many([((1,), {})])) == 1


@pytest.mark.parametrize("key", ["{taskq}:queues", "a b", "x*", "ü" * 127, "x" * 255])
def test_c54_an_odd_key_stays_inside_the_prefix(backend, redis_client, key):
    tasks.add.using(idempotency_key=key).enqueue(1)

    assert redis_client.exists(f"{{taskq}}:idem:{key}")


def test_the_task_is_told_its_key():
    assert BackgroundContext(task_result=None, idempotency_key="k").idempotency_key == "k"
