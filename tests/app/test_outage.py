"""When Redis is away: who is told, with what, and how soon."""

from __future__ import annotations

import asyncio
import os

import pytest
from django.db import transaction
from django.db.transaction import atomic

from django_taskq import EnqueueError, producer
from django_taskq.broker.broker import Broker
from django_taskq.broker.enqueueing import PAGE_RECORDS
from django_taskq.broker.exceptions import BrokerError, BrokerUnavailable, ConfigurationError, OutOfMemory
from django_taskq.broker.inspector import Inspector
from django_taskq.compat import task_backends
from tests.app import tasks
from tests.servers import free_port


@pytest.fixture(autouse=True)
def forget_outages():
    """Let no test wait for the outage that another met."""
    yield
    producer._producers.clear()


@pytest.fixture
def use_url(settings):
    """Give a function that sends the backend to another address."""

    def use(url, **options):
        entry = {"BACKEND": "django_taskq.backend.RedisBackend", "QUEUES": [], "OPTIONS": {"url": url, **options}}
        settings.TASKS = {"default": entry}
        return task_backends["default"]

    return use


@pytest.fixture
def nowhere(use_url):
    """Point the backend to a port that nothing listens on."""
    return use_url(f"redis://127.0.0.1:{free_port()}/0")


def failing(error):
    """Return a method in the place of `Broker.enqueue_pages`."""
    return lambda self, records: iter([error])


def test_a_refused_connection_stored_nothing(nowhere):
    with pytest.raises(EnqueueError, match="nothing was stored") as caught:
        tasks.add.enqueue(1)

    assert len(caught.value.ids) == 1
    assert caught.value.maybe_stored is False
    assert isinstance(caught.value.__cause__, BrokerUnavailable)


@pytest.mark.parametrize(
    "path",
    [
        lambda: asyncio.run(tasks.add.aenqueue(1)),
        lambda: asyncio.run(tasks.at_once.aenqueue()),
        lambda: tasks.stock.enqueue(1),
        lambda: tasks.add.using(idempotency_key="k").enqueue(1),
    ],
)
def test_every_way_to_enqueue_tells(nowhere, path):
    with pytest.raises(EnqueueError):
        path()


@pytest.mark.parametrize(
    ("error", "behind", "maybe"),
    [
        (OutOfMemory("full"), OutOfMemory("full"), False),
        (OutOfMemory("full"), [], True),  # The page behind it was stored.
        (OutOfMemory("full"), BrokerUnavailable("cut", maybe_executed=True), True),
        (BrokerUnavailable("cut", maybe_executed=True), None, True),
        (BrokerUnavailable("refused", maybe_executed=False), None, False),
    ],
)
def test_a_bulk_names_all_that_were_not_confirmed(backend, monkeypatch, sent, error, behind, maybe):
    enqueue_pages = Broker.enqueue_pages

    def fail_second(self, records):
        yield from enqueue_pages(self, records[:PAGE_RECORDS])
        yield error
        if behind is not None:
            yield behind

    monkeypatch.setattr(Broker, "enqueue_pages", fail_second)
    with pytest.raises(EnqueueError) as caught:
        tasks.add.enqueue_many([((number,), {}) for number in range(3 * PAGE_RECORDS + 5)])

    assert caught.value.__cause__ is error
    assert caught.value.maybe_stored is maybe
    assert len(caught.value.ids) == 2 * PAGE_RECORDS + 5
    assert str(caught.value).endswith("(some may have been stored)" if maybe else "(nothing was stored)")
    assert Inspector(backend.broker).counts(["default"])["default"].ready == PAGE_RECORDS
    assert len(sent) == PAGE_RECORDS
    assert not set(caught.value.ids) & {result.id for _, result, _ in sent}


@pytest.mark.parametrize(
    ("error", "maybe"),
    [
        (OutOfMemory("full"), False),
        (ConfigurationError("password"), False),
        (ConfigurationError("rights", maybe_executed=True), True),
        (BrokerError("ERR"), False),
        (BrokerError("WRONGTYPE", maybe_executed=True), True),
        (BrokerUnavailable("cut", maybe_executed=True), True),
    ],
)
def test_the_cause_says_whether_it_may_be_stored(backend, monkeypatch, error, maybe):
    monkeypatch.setattr(Broker, "enqueue_pages", failing(error))
    with pytest.raises(EnqueueError) as caught:
        tasks.add.enqueue(1)

    assert caught.value.maybe_stored is maybe
    assert caught.value.__cause__ is error
    assert str(caught.value).endswith("(it may have been stored)" if maybe else "(nothing was stored)")


def test_at_maxmemory_enqueuing_is_refused_clearly(new_server, use_url):
    server = new_server("--maxmemory", "100kb")
    use_url(server.unix_url)
    with pytest.raises(EnqueueError, match="maxmemory") as caught:
        tasks.add.enqueue("x")

    assert not caught.value.maybe_stored


def test_c34_an_outcome_that_is_unknown_carries_the_id(redis_server, backend, monkeypatch):
    """The connection is cut after Redis has executed the enqueue."""
    enqueue = Broker.enqueue_pages

    def lose_reply(self, records):
        list(enqueue(self, records))
        yield BrokerUnavailable("Connection reset by peer", maybe_executed=True)

    monkeypatch.setattr(Broker, "enqueue_pages", lose_reply)
    with pytest.raises(EnqueueError, match="may have been stored") as caught:
        tasks.add.using(idempotency_key="order-5").enqueue(1)
    monkeypatch.undo()
    producer._producers.clear()

    (stored_id,) = caught.value.ids
    assert caught.value.maybe_stored
    assert backend.get_result(stored_id).args == [1]
    assert tasks.add.using(idempotency_key="order-5").enqueue(1).id == stored_id


@pytest.mark.django_db(transaction=True)
def test_a_failed_push_leaves_the_block_after_the_commit(nowhere):
    from django.contrib.auth.models import User

    made, ran = [], []

    def work():
        with atomic():
            User.objects.create(username="kept")
            made.append(tasks.add.enqueue(1))
            transaction.on_commit(lambda: ran.append("behind"))

    with pytest.raises(EnqueueError) as caught:
        work()

    assert User.objects.filter(username="kept").exists()
    assert caught.value.ids == (made[0].id,)
    assert (made[0].enqueued_at, ran) == (None, [])


def test_after_a_failed_push_others_fail_at_once_for_a_second(monkeypatch, backend):
    now = [100.0]
    calls = []
    enqueue = Broker.enqueue_pages
    monkeypatch.setattr(producer.time, "monotonic", lambda: now[0])

    def fail(self, records):
        calls.append(records)
        yield BrokerUnavailable("timed out", maybe_executed=True)

    monkeypatch.setattr(Broker, "enqueue_pages", fail)
    with pytest.raises(EnqueueError):
        tasks.add.enqueue(1)
    monkeypatch.setattr(Broker, "enqueue_pages", lambda self, records: calls.append(records) or enqueue(self, records))

    now[0] += 0.99
    with pytest.raises(EnqueueError, match="a moment ago: timed out") as caught:
        tasks.add.enqueue(2)
    assert (len(calls), caught.value.maybe_stored) == (1, False)

    now[0] += 0.02
    assert tasks.add.enqueue(3).enqueued_at is not None
    assert tasks.add.enqueue(4).enqueued_at is not None


def test_an_outage_is_forgotten_with_the_settings(backend, monkeypatch, settings):
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "enqueue_pages", failing(BrokerUnavailable("timed out", maybe_executed=True)))
        with pytest.raises(EnqueueError):
            tasks.add.enqueue(1)
    settings.TASKS = dict(settings.TASKS)

    assert tasks.add.enqueue(2).enqueued_at is not None


def test_refused_records_do_not_stop_those_behind(backend, monkeypatch):
    """Only what says that Redis is away makes others fail."""
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "enqueue_pages", failing(OutOfMemory("full")))
        with pytest.raises(EnqueueError):
            tasks.add.enqueue(1)

    assert tasks.add.enqueue(2).enqueued_at is not None


@pytest.mark.django_db(databases=["default", "other"])
def test_reading_while_redis_is_away(nowhere):
    with pytest.raises(BrokerUnavailable):
        nowhere.get_result("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_c36_a_forked_child_has_a_broker_of_its_own(backend):
    parents = backend.broker
    result = tasks.add.enqueue(0)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            own = task_backends["default"].broker is not parents
            ids = [tasks.add.enqueue(number).id for number in range(50)]
            seen = [task_backends["default"].get_result(each).args for each in ids]
            os.write(writer, b"good" if own and seen == [[number] for number in range(50)] else b"bad")
        finally:
            os._exit(0)
    os.close(writer)
    for number in range(50):
        assert backend.get_result(tasks.add.enqueue(number).id).args == [number]
    assert os.read(reader, 10) == b"good"
    os.waitpid(pid, 0)
    os.close(reader)
    assert backend.get_result(result.id).args == [0]
