"""Redis comes back with all that it acknowledged, with nothing, or with an older copy."""

from __future__ import annotations

import time

import pytest

from django_taskq.broker.broker import Broker
from tests.broker.helpers import ERROR, HOUR, MINUTE, RESULT, claim, dump, lapse, places, put, read, request, settle
from tests.casebook.jobs import hold_or_lose
from tests.redis.conftest import DURABLE
from tests.redis.jobs import add, note
from tests.redis.proxy import Proxy
from tests.rules import check_rules
from tests.waiting import wait_until


def restart(server):
    server.stop()
    server.start()


def save_copy(server):
    """Let a restart bring back what the server holds now."""
    with server.client() as client:
        client.save()


#: Options of a server that comes back with the last copy.
OLDER_COPIES = ("--dbfilename", "copy.rdb")


def test_a_restart_from_aof_keeps_all_that_was_acknowledged(new_server):
    server = new_server(*DURABLE)
    broker = Broker(server.client())
    put(broker, 3, key=None)
    put(broker, delay_ms=HOUR)
    put(broker, key="k", priority=7)
    for kind in ("complete", "retry", "bury", "release"):
        put(broker, queue=kind)
        (lease,) = claim(broker, queues=[kind]).leases
        assert settle(broker, kind, lease) == "DONE"
    (lease,) = claim(broker).leases
    before = dump(broker)

    restart(server)

    assert dump(broker) == before
    assert broker.renew([(lease.id, lease.queue, lease.token)], MINUTE) == ["OK"]
    assert broker.complete(lease, RESULT) == "DONE"
    assert put(broker, key="k") != []


@pytest.mark.parametrize("state", ["waiting", "leased", "requeued"])
def test_after_a_restart_from_an_older_copy_tokens_still_grow(new_server, state):
    server = new_server(*OLDER_COPIES)
    broker = Broker(server.client())
    (record_id,) = put(broker)
    if state != "waiting":
        (first,) = claim(broker).leases
    if state == "requeued":
        broker.bury(first, ERROR)
        assert broker.requeue([(first.id, int(broker.client.zscore(broker.keys.dead("q"), first.id)), 0)]) == ["DONE"]
    save_copy(server)
    if state == "leased":
        assert broker.retry(first, 0, ERROR) == "DONE"
    tokens = []
    for _ in range(5):
        (held,) = claim(broker).leases
        tokens.append(held.token)
        assert broker.release(held) == "DONE"
    (held,) = claim(broker).leases

    restart(server)

    # Who held it learns that it doesn't any more, and changes nothing.
    assert broker.renew([(held.id, "q", held.token)], MINUTE) == ["LOST"]
    assert broker.complete(held, RESULT) == "LEASE_LOST"
    assert broker.retry(held, 0, ERROR) == "LEASE_LOST"
    if state == "leased":
        lapse(broker, first)
        (lapsed,) = broker.expired(["q"]).leases
        assert (lapsed.id, lapsed.token) == (record_id, first.token)
        assert broker.retry(lapsed, 0, ERROR, lapsed=True) == "DONE"
    (again,) = claim(broker).leases
    assert again.id == record_id
    assert again.token > held.token > max(tokens)
    assert broker.complete(held, RESULT) == "LEASE_LOST"
    assert broker.complete(again, RESULT) == "DONE"


def test_after_a_restart_from_an_older_copy_a_row_s_larger_token_is_the_floor(new_server):
    """What a row knows and Redis has forgotten: also with a clock that was set back."""
    server = new_server(*OLDER_COPIES)
    broker = Broker(server.client())
    (record_id,) = put(broker)
    save_copy(server)
    restart(server)
    (held,) = claim(broker).leases
    ahead = held.token + HOUR

    assert broker.release(held, floor=ahead) == "DONE"

    (again,) = claim(broker).leases
    assert (again.id, again.attempt) == (record_id, 1)
    assert again.token > ahead


def test_after_a_restart_from_an_older_copy_a_child_s_next_claim_is_not_stale(new_server):
    server = new_server(*OLDER_COPIES)
    broker = Broker(server.client())
    put(broker, 2)
    broker.claim(request(1, nonce=3))
    save_copy(server)
    broker.claim(request(1, nonce=4))

    restart(server)

    # Its answer was lost, so that it is sent again; Redis knows nothing of it.
    (lease,) = broker.claim(request(1, nonce=4)).leases
    assert places(broker, lease.id) == ["leased"]
    assert read(broker, lease.id).attempts == 1


@pytest.mark.parametrize("own_server", [()], indirect=True, ids=["empty"])
@pytest.mark.parametrize("queues", ["named", "all"])
def test_a_worker_works_on_when_redis_comes_back_with_nothing(own_server, start_ready, noted, inspector, works, queues):
    variables = {"TASKQ_TEST_ALL_QUEUES": "1"} if queues == "all" else {}
    gone = hold_or_lose.enqueue("gone")
    worker = start_ready("w", "--threads", "2", lease=2, **variables)
    noted("begin gone 1")
    children = worker.children()

    restart(own_server)

    noted("lost gone")
    note("end gone")
    wait_until(lambda: "doesn't count" in worker.log)
    assert inspector.record(gone.id) is None
    works()
    wait_until(lambda: [one["name"] for one in inspector.workers()] == ["w"])
    assert worker.children() == children
    assert worker.stop() == 0


@pytest.mark.parametrize("own_server", [OLDER_COPIES], indirect=True, ids=["older copy"])
def test_a_task_that_redis_forgot_it_had_claimed_runs_again_and_the_first_run_changes_nothing(
    own_server, start_ready, ended, noted, notes, inspector
):
    """The copy was taken before the claim: the record is there, and waits."""
    result = hold_or_lose.enqueue()
    done = add.enqueue(1)
    save_copy(own_server)
    worker = start_ready("w", "--threads", "2", lease=2)
    noted("begin a 1")
    ended(done)
    later = add.enqueue(2)
    ended(later)
    token = inspector.record(result.id).token

    restart(own_server)

    # What had ended after the copy runs again, what was enqueued after it is gone: as far as Redis alone can know.
    noted("lost a")
    wait_until(lambda: notes().count("begin a 1") == 2)
    assert inspector.record(result.id).token > token
    note("end a")
    wait_until(lambda: "doesn't count" in worker.log)
    assert inspector.record(result.id).state == "leased"
    note("go a")
    records = ended(result, done)
    check_rules(records)
    assert [(record.state, record.attempts) for record in records] == [("succeeded", 1)] * 2
    assert inspector.record(later.id) is None
    assert worker.stop() == 0


def test_what_ended_in_an_outage_longer_than_its_lease_is_settled_before_anybody_reaps_it(
    own_server, start_worker, start_ready, ended, noted
):
    """Settling is retried until Redis answers, and a reaper holds back, though Redis answers it first."""
    lease = 2
    proxy = Proxy(own_server.port)
    result = hold_or_lose.enqueue()
    start_worker(lease=lease, TASKQ_TEST_URL=proxy.url)
    noted("begin a 1")
    reaper = start_ready("reaper", "--queues", "mail", lease=lease)

    proxy.refuse()
    own_server.stop()
    stopped = time.monotonic()
    note("go a")
    wait_until(lambda: time.monotonic() - stopped > 1.5 * lease)
    own_server.start()
    wait_until(lambda: "Reaper: Redis answers again" in reaper.log)
    proxy.accept()

    (record,) = ended(result)
    check_rules([record])
    assert (record.state, record.attempts, record.result) == ("succeeded", 1, 1)
    proxy.close()
