"""Rows are written before Redis is told, on a stand-in for the database."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace

import pytest

from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.records import Attempt, AttemptError
from django_taskq.broker.settlements import Bury, Complete, Retry
from django_taskq.worker import rows
from django_taskq.worker.board import Board
from django_taskq.worker.endings import Ending, NotRecorded, Recorded
from django_taskq.worker.outcomes import Failed, Released, Succeeded, to_settlement
from django_taskq.worker.pool import Inbox
from django_taskq.worker.process import Child, Stop
from django_taskq.worker.rows import Rows
from django_taskq.worker.settings import Settings
from tests.unit.worker.fakes import FakeApplication, FakeBroker, make_lease
from tests.waiting import wait_until

ERROR = AttemptError("builtins.OSError", "no", "Traceback")
DONE = Succeeded(b'{"result":42}')
AGAIN, DEAD = Failed(ERROR, 1000), Failed(ERROR, None)


class FakeStore:
    """Keeps what was written; refuses it while it `is_away`, or the ids in `refused`."""

    def __init__(self):
        self.keeps_all = True
        self.written, self.corrected, self.probes, self.rests = [], [], 0, 0
        self.is_away = False
        self.refused = set()
        self.open = threading.Event()
        self.open.set()

    def keeps(self, lease):
        return self.keeps_all or lease.head.record_alias is not None

    def write(self, endings):
        assert self.open.wait(10)
        refused = {each.lease.id for each in endings} if self.is_away else self.refused
        written = [each for each in endings if each.lease.id not in refused]
        self.written += written
        return Recorded(written, NotRecorded(sorted(refused), OSError("away")) if refused else None)

    def read(self, endings):
        return Recorded(endings)

    def correct(self, endings):
        if self.is_away:
            raise NotRecorded([each.lease.id for each in endings], OSError("away"))
        self.corrected += endings

    def probe(self):
        self.probes += 1
        if self.is_away:
            raise NotRecorded([], OSError("away"))

    def rest(self):
        self.rests += 1

    @property
    def ids(self):
        return sorted(each.lease.id for each in self.written)


@pytest.fixture
def store():
    return FakeStore()


@pytest.fixture
def start(store):
    """Start the loop of a child that keeps rows, and end it after the test."""
    started = []

    def start(broker, body=lambda lease, control: DONE, **settings):
        settings = Settings(name="w", queues=("default",), **{"threads": 2, "coroutines": 2, **settings})
        board, inbox = Board(settings.slots), Inbox()
        application = FakeApplication(broker, body)
        application.rows = store
        thread = threading.Thread(target=Child("w.1", settings, application, board, inbox).run)
        thread.start()
        started.append((thread, inbox))
        return board, inbox, thread

    yield start
    store.is_away = False
    store.open.set()
    for thread, inbox in started:
        inbox.put(Stop())
        thread.join(10)
        assert not thread.is_alive()


def by_kind(broker, kind):
    return [each for each in broker.settled if isinstance(each, kind)]


@pytest.mark.parametrize(
    ("outcome", "cancelled", "state"),
    [
        (DONE, False, "succeeded"),
        (DONE, True, "succeeded"),
        (DEAD, False, "dead"),
        (DEAD, True, "cancelled"),
        (AGAIN, True, "cancelled"),
        (AGAIN, False, None),
        (Released(), True, None),
    ],
)
def test_only_what_ends_has_a_row(outcome, cancelled, state):
    assert Ending(make_lease(), outcome, cancelled=cancelled).state == state


def test_without_a_store_nothing_waits():
    endings = [Ending(make_lease(), DONE)]
    assert Rows(None).write(endings) == (endings, [])
    assert not Rows(None).is_wrong(endings[0], "LEASE_LOST")


def test_what_was_not_written_is_brought_again(store):
    store.refused = {"id1"}
    first, second, third = (Ending(make_lease(n), outcome) for n, outcome in ((1, DONE), (2, DONE), (3, AGAIN)))
    assert Rows(store).write([first, second, third]) == ([second, third], [first])


def test_after_a_minute_a_record_is_buried_with_its_result(store, monkeypatch):
    store.is_away = True
    keeper, ending = Rows(store), Ending(make_lease(), DONE)
    assert keeper.write([ending]) == ([], [ending])
    monkeypatch.setattr(rows, "PATIENCE", 0)
    ((told,), again) = keeper.write([ending])
    settlement = to_settlement(told.lease, told.outcome)
    assert isinstance(settlement, Bury)
    assert again == []
    said = json.loads(settlement.log_json)
    assert (said["reason"], said["result"]) == ("result not saved", 42)
    attempt = Attempt.from_line(b"1 2 3 4 w.1 " + settlement.log_json)
    assert (attempt.error.reason, attempt.result) == ("result not saved", 42)


def test_a_result_that_is_not_kept_is_not_in_the_log_either(store, monkeypatch):
    store.is_away = True
    monkeypatch.setattr(rows, "PATIENCE", 0)
    ((told,), _) = Rows(store).write([Ending(make_lease(), Succeeded(b"{}"))])
    assert "result" not in json.loads(to_settlement(told.lease, told.outcome).log_json)


def test_after_a_minute_a_failure_keeps_its_error(store, monkeypatch):
    store.is_away = True
    monkeypatch.setattr(rows, "PATIENCE", 0)
    ((told,), _) = Rows(store).write([Ending(make_lease(), DEAD)])
    assert (told.outcome.error.error, told.outcome.error.reason) == ("builtins.OSError", "result not saved")
    ((told,), _) = Rows(store).write([Ending(make_lease(), Failed(AttemptError("x", reason="worker lost"), None))])
    assert told.outcome.error.reason == "worker lost"


def test_the_minute_begins_anew_when_the_database_was_back(store, monkeypatch):
    keeper, ending = Rows(store), Ending(make_lease(), DONE)
    store.is_away = True
    keeper.write([ending])
    store.is_away = False
    keeper.write([Ending(make_lease(2), DONE)])
    assert not keeper._since


@pytest.mark.parametrize(
    ("outcome", "cancelled", "word", "wrong"),
    [
        (DONE, False, "DONE", False),
        (DONE, False, "ALREADY", False),
        (DONE, False, "LEASE_LOST", True),
        (DEAD, False, "HELD", True),
        (DEAD, False, "CANCELLED", True),
        (DEAD, True, "CANCELLED", False),
        (AGAIN, False, "LEASE_LOST", False),
        (AGAIN, False, "CANCELLED", True),
        (DONE, False, "ORPHANED", False),
    ],
)
def test_a_row_that_redis_contradicts_is_corrected(store, outcome, cancelled, word, wrong):
    keeper, ending = Rows(store), Ending(make_lease(), outcome, cancelled=cancelled)
    keeper.heed(ending, word)
    assert keeper.correct() == wrong
    assert store.corrected == [ending] * wrong


def fenced(lease):
    """Return a lease of a record that has had a row since it was enqueued."""
    return replace(lease, task=lease.task.replace(b"\n\n", b"\nrecord default\n\n", 1))


def test_what_its_row_says_already_is_neither_written_nor_corrected(store):
    keeper, ending = Rows(store), Ending(fenced(make_lease()), replace(DONE, is_recorded=True))
    assert keeper.write([ending]) == ([ending], [])
    assert not store.written
    assert not keeper.is_wrong(ending, "LEASE_LOST")


def test_a_store_that_keeps_some_is_asked_about_those(store):
    store.keeps_all = False
    keeper, plain, kept = Rows(store), Ending(make_lease(1), DONE), Ending(fenced(make_lease(2)), DONE)
    assert keeper.write([plain, kept]) == ([plain, kept], [])
    assert store.ids == ["id2"]
    assert not keeper.is_wrong(plain, "LEASE_LOST")


def test_a_row_that_has_the_last_word_is_waited_for_without_an_end(store, monkeypatch):
    monkeypatch.setattr(rows, "PATIENCE", 0)
    store.is_away = True
    keeper, ending = Rows(store), Ending(fenced(make_lease()), DONE)
    assert keeper.write([ending]) == ([], [ending])


def test_a_correction_is_tried_again_but_not_for_ever(store, monkeypatch, caplog):
    keeper = Rows(store)
    store.is_away = True
    keeper.heed(Ending(make_lease(), DONE), "LEASE_LOST")
    assert keeper.correct() == 0
    monkeypatch.setattr(rows, "PATIENCE", 0)
    assert keeper.correct() == 1
    assert "may differ from Redis" in caplog.text


def test_a_child_writes_rows_before_it_settles(store, start):
    broker = FakeBroker(*map(make_lease, range(5)))
    store.open.clear()
    board, *_ = start(broker)
    wait_until(lambda: len(board.leases()) == 4)
    assert not broker.settled
    store.open.set()
    wait_until(lambda: len(by_kind(broker, Complete)) == 5)
    assert store.ids == [f"id{n}" for n in range(5)]


def test_a_child_settles_what_needs_no_row_while_the_database_hangs(store, start):
    store.open.clear()
    broker = FakeBroker(make_lease(1), make_lease(2))
    start(broker, lambda lease, control: DONE if lease.id == "id1" else AGAIN)
    wait_until(lambda: len(by_kind(broker, Retry)) == 1)
    assert not by_kind(broker, Complete)
    store.open.set()
    wait_until(lambda: len(by_kind(broker, Complete)) == 1)


def test_a_child_claims_nothing_while_the_database_is_away(store, start, monkeypatch, caplog):
    store.is_away = True
    broker = FakeBroker(make_lease(1))
    board, *_ = start(broker)
    wait_until(lambda: "The database takes no rows" in caplog.text)
    claims = len(broker.claims)
    broker.wake(make_lease(2))
    assert board.leases()
    # It gives the first up, and still claims nothing.
    monkeypatch.setattr(rows, "PATIENCE", 0)
    wait_until(lambda: len(by_kind(broker, Bury)) == 1)
    wait_until(lambda: store.probes > 1)
    assert len(broker.claims) == claims
    store.is_away = False
    wait_until(lambda: len(by_kind(broker, Complete)) == 1)
    assert "The database answers again" in caplog.text


def test_a_database_that_only_some_rows_need_holds_up_no_claims(store, start, caplog):
    store.refused = {"id1"}
    broker = FakeBroker(fenced(make_lease(1)), make_lease(2))
    start(broker)
    wait_until(lambda: "The database takes no rows" in caplog.text)
    broker.wake(make_lease(3))
    wait_until(lambda: len(by_kind(broker, Complete)) == 2)
    store.refused = set()
    wait_until(lambda: len(by_kind(broker, Complete)) == 3)


def test_where_no_database_takes_rows_nothing_is_claimed_for_it(store, start):
    store.is_away = True
    broker = FakeBroker(fenced(make_lease(1)))
    start(broker)
    wait_until(lambda: store.probes > 1)
    claims = len(broker.claims)
    broker.wake(make_lease(2))
    wait_until(lambda: store.probes > 4)
    assert len(broker.claims) == claims
    store.is_away = False
    wait_until(lambda: len(by_kind(broker, Complete)) == 2)


def test_a_child_that_is_told_to_stop_writes_its_rows_first(store, start):
    store.is_away = True
    broker = FakeBroker(make_lease(1))
    _, inbox, thread = start(broker)
    wait_until(lambda: broker.claims and not broker.ready)
    inbox.put(Stop())
    thread.join(0.2)
    assert thread.is_alive()
    store.is_away = False
    thread.join(10)
    assert not thread.is_alive()
    assert (store.ids, len(by_kind(broker, Complete))) == (["id1"], 1)


def test_a_child_corrects_a_row_whose_lease_was_lost(store, start):
    broker = FakeBroker(make_lease(1), make_lease(2))
    broker.answers = {"id1": "LEASE_LOST"}
    _, inbox, thread = start(broker)
    wait_until(lambda: store.corrected)
    assert [each.lease.id for each in store.corrected] == ["id1"]
    inbox.put(Stop())
    thread.join(10)
    assert not thread.is_alive()


def test_a_row_that_could_not_be_corrected_is_when_its_database_is_back(store, start, monkeypatch):
    monkeypatch.setattr("django_taskq.worker.row_writer.PAUSE_AFTER_FAILURE", 0.01)
    correct, failures = store.correct, []

    def fail(endings):
        if len(failures) < 3:
            failures.append(endings)
            raise NotRecorded(["id1"], OSError("away"))
        correct(endings)

    store.correct = fail
    broker = FakeBroker(make_lease(1))
    broker.answers = {"id1": "LEASE_LOST"}
    _, inbox, thread = start(broker)
    wait_until(lambda: store.corrected)
    inbox.put(Stop())
    thread.join(10)
    assert not thread.is_alive()


def test_a_child_waits_for_redis_where_a_row_needs_it(store, start, caplog):
    broker = FakeBroker(make_lease(1))
    real, away = store.write, [True]

    def write(endings):
        if away[0]:
            raise BrokerUnavailable("Redis is away", maybe_executed=False)
        return real(endings)

    store.write = write
    start(broker)
    wait_until(lambda: "Redis is away" in caplog.text)
    away[0] = False
    wait_until(lambda: len(by_kind(broker, Complete)) == 1)
    assert store.ids == ["id1"]


def test_an_unexpected_failure_of_the_writer_is_survived(store, start, caplog, monkeypatch):
    monkeypatch.setattr("django_taskq.worker.row_writer.PAUSE_AFTER_FAILURE", 0.01)
    broker = FakeBroker(make_lease(1))
    real, failures = store.write, []

    def write(endings):
        if len(failures) < 2:
            failures.append(1)
            raise ZeroDivisionError
        return real(endings)

    store.write = write
    start(broker)
    wait_until(lambda: len(by_kind(broker, Complete)) == 1)
    assert caplog.text.count("Writing rows failed") == 2


def test_a_child_lets_the_database_rest_when_it_is_idle(store, start, monkeypatch):
    monkeypatch.setattr("django_taskq.worker.row_writer.IDLE", 0.05)
    broker = FakeBroker(make_lease(1))
    start(broker)
    wait_until(lambda: store.rests == 1)
    broker.wake(make_lease(2))
    wait_until(lambda: store.rests == 2)
    assert store.ids == ["id1", "id2"]


def test_many_rows_are_written_in_few_batches(store, start):
    broker = FakeBroker(*map(make_lease, range(60)))
    batches, real = [], store.write

    def write(endings):
        batches.append(len(endings))
        time.sleep(0.01)
        return real(endings)

    store.write = write
    start(broker, threads=20, coroutines=20)
    wait_until(lambda: len(by_kind(broker, Complete)) == 60)
    assert sum(batches) == 60
    assert max(batches) > 1
