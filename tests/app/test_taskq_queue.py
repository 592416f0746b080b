"""`manage.py taskq queue purge`: all that waits is cancelled, in Redis and in the rows that would bring it back."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from django_taskq import purging, registry
from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.models import TaskRecord
from django_taskq.repair import Repair
from tests.broker.helpers import HOUR, bury_one, claim, lease_one, put

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.fixture(autouse=True)
def _no_tasks(monkeypatch):
    """Let no task be declared that has rows of its own."""
    monkeypatch.setattr(registry, "_declared", {})


@pytest.fixture
def outbox(with_options):
    """Give the backend with an outbox."""
    return with_options(records="outbox")


@pytest.fixture
def broker(backend):
    return backend.broker


@pytest.fixture
def answer(monkeypatch):
    """Give a function that says what is answered, and a list of what is asked."""
    asked = []

    def says(text):
        def ask(question):
            asked.append(question)
            if text is None:
                raise EOFError
            return text

        monkeypatch.setattr("builtins.input", ask)
        return asked

    return says


def purge(name="q", *arguments):
    output = StringIO()
    call_command("taskq", "queue", "purge", name, *arguments, stdout=output)
    return output.getvalue()


def states(inspector, ids):
    return Counter(str(record.state) for record in inspector.records(ids))


def keep(ids, status="waiting", **columns):
    """Make open rows."""
    now = timezone.now()
    task = {"backend": "default", "task": "a.b", "queue": "q", "envelope": '{"name": "a.b"}', "is_outbox": True}
    columns = {**task, "enqueued_at": now, "repair_at": now + timedelta(hours=1), **columns}
    for record_id in ids:
        TaskRecord.objects.create(id=record_id, status=status, **columns)
    return ids


def statuses():
    return dict(TaskRecord.objects.values_list("pk", "status"))


def test_all_that_waits_is_cancelled_and_counted(broker, inspector):
    ids = [*put(broker, 2), *put(broker, 2, delay_ms=HOUR), *put(broker, 1, priority=50)]
    assert purge("q", "--yes") == "Cancelled 5 tasks in 'q'.\n"
    assert states(inspector, ids) == {"cancelled": 5}


def test_all_else_is_left_alone(broker, inspector):
    (elsewhere,) = put(broker, queue="other")
    (dead, _), leased = bury_one(broker), lease_one(broker)
    assert json.loads(purge("q", "--yes", "--json")) == {"queue": "q", "cancelled": 0, "asked": 0}
    assert [str(record.state) for record in inspector.records([elsewhere, dead, leased.id])] == [
        "waiting",
        "dead",
        "leased",
    ]
    assert not inspector.record(leased.id).cancel_requested


def test_page_by_page_it_comes_to_the_end(broker, inspector, monkeypatch):
    monkeypatch.setattr(purging, "BATCH_RECORDS", 3)
    ids = [*put(broker, 7), *put(broker, 7, priority=-5), *put(broker, 7, delay_ms=HOUR)]
    assert purge("q", "--yes") == "Cancelled 21 tasks in 'q'.\n"
    assert states(inspector, ids) == {"cancelled": 21}


def test_what_is_enqueued_meanwhile_is_not_meant(broker, inspector, monkeypatch):
    put(broker, 3)
    late, cancel = [], type(broker).cancel

    def cancel_and_enqueue(self, ids):
        late.extend(put(broker, 2))
        return cancel(self, ids)

    monkeypatch.setattr(type(broker), "cancel", cancel_and_enqueue)
    monkeypatch.setattr(purging, "BATCH_RECORDS", 1)
    for record_id in put(broker, 3):
        broker.client.zadd(broker.keys.ready("q"), {record_id: 1}, xx=True)  # before all others
    assert purge("q", "--yes") == "Cancelled 6 tasks in 'q'.\n"
    assert states(inspector, late) == {"waiting": len(late)}


def test_what_a_worker_takes_meanwhile_is_asked_to_stop(broker, inspector, monkeypatch):
    put(broker, 2)
    cancel = type(broker).cancel
    taken = []

    def claim_and_cancel(self, ids):
        taken.extend(claim(broker).leases)
        return cancel(self, ids)

    monkeypatch.setattr(type(broker), "cancel", claim_and_cancel)
    assert purge("q", "--yes") == "Cancelled 1 task in 'q'. 1 had begun to run, and were asked to stop.\n"
    assert inspector.record(taken[0].id).cancel_requested


class TestQuestion:
    @pytest.mark.parametrize("text", ["y", "Yes "])
    def test_it_asks_with_the_number(self, broker, answer, text):
        asked = answer(text)
        put(broker, 2)
        assert purge() == "Cancelled 2 tasks in 'q'.\n"
        assert asked == ["Cancel all that waits in 'q' (2)? [y/N] "]

    @pytest.mark.parametrize("text", ["", "n", "what", None])
    def test_any_other_answer_leaves_all_as_it_is(self, broker, inspector, answer, text):
        answer(text)
        ids = put(broker, 2)
        with pytest.raises(CommandError, match="--yes") as caught:
            purge()
        assert caught.value.returncode == 1
        assert states(inspector, ids) == {"waiting": 2}

    def test_with_json_nobody_is_asked(self, broker, answer):
        asked = answer("y")
        put(broker)
        with pytest.raises(CommandError, match="--yes"):
            purge("q", "--json")
        assert asked == []

    def test_a_queue_that_is_not_there_is_an_error_with_a_hint(self, broker):
        put(broker, queue="mails")
        with pytest.raises(CommandError, match=r"no queue 'mail'\. Did you mean 'mails'\?") as caught:
            purge("mail", "--yes")
        assert caught.value.returncode == 1


class TestRows:
    @pytest.fixture
    def repair(self, outbox):
        """Give a function that looks for what is to be pushed again."""
        return lambda: Repair("default", type(outbox), outbox.conf, outbox.broker).work()

    def test_rows_are_closed_before_redis_is_told(self, outbox, broker, monkeypatch):
        keep(put(broker, 2, record_alias="default"))
        seen, cancel = [], type(broker).cancel
        monkeypatch.setattr(type(broker), "cancel", lambda *given: seen.extend(statuses().values()) or cancel(*given))
        purge("q", "--yes")
        assert seen == ["cancelled"] * 2

    def test_what_redis_lost_is_cancelled_too_and_never_comes_back(self, outbox, broker, inspector, repair):
        ids = keep(put(broker, 3, record_alias="default"))
        broker.client.flushall()
        assert purge("q", "--yes") == "Cancelled 3 tasks in 'q'.\n"
        assert statuses() == dict.fromkeys(ids, "cancelled")
        repair()
        assert inspector.records(ids) == [None] * 3

    def test_what_was_purged_does_not_come_back_when_redis_forgets_it(self, outbox, broker, inspector, repair):
        ids = keep(put(broker, 3, record_alias="default"))
        purge("q", "--yes")
        broker.client.flushall()
        repair()
        assert inspector.records(ids) == [None] * 3

    def test_what_is_pushed_meanwhile_is_cancelled_too(self, outbox, broker, inspector, repair, monkeypatch):
        ids = keep(put(broker, 2, record_alias="default"))
        broker.client.flushall()
        pages = purging._pages

        def last_page(*given):
            yield from pages(*given)
            repair()

        monkeypatch.setattr(purging, "_pages", last_page)
        assert purge("q", "--yes") == "Cancelled 2 tasks in 'q'.\n"
        assert statuses() == dict.fromkeys(ids, "cancelled")
        assert states(inspector, ids) == {"cancelled": 2}

    def test_rows_of_what_runs_or_of_other_queues_stay_open(self, outbox, broker):
        lease = lease_one(broker, record_alias="default")
        keep([lease.id], "running")
        keep(["A"], queue="other")
        keep(["B"], enqueued_at=timezone.now() + timedelta(hours=1))
        purge("q", "--yes")
        assert statuses() == {lease.id: "running", "A": "waiting", "B": "waiting"}

    def test_rows_are_looked_at_page_by_page(self, outbox, monkeypatch):
        monkeypatch.setattr(purging, "_PAGE", 2)
        keep([f"A{number}" for number in range(5)])
        assert purge("q", "--yes") == "Cancelled 5 tasks in 'q'.\n"


class TestTrouble:
    def test_without_redis_it_says_how_far_it_came(self, broker, monkeypatch):
        put(broker, 3)
        words = iter([["DONE"], BrokerUnavailable("gone away", maybe_executed=True)])

        def cancel(self, ids):
            word = next(words)
            if isinstance(word, Exception):
                raise word
            return word

        monkeypatch.setattr(type(broker), "cancel", cancel)
        monkeypatch.setattr(purging, "BATCH_RECORDS", 1)
        with pytest.raises(CommandError, match=r"gone away\nCancelled 1 task so far\. Run it again"):
            purge("q", "--yes")

    def test_without_the_database_nothing_is_done(self, outbox, broker, inspector):
        ids = put(broker, 2, record_alias="default")
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {TaskRecord._meta.db_table} RENAME TO elsewhere")
        with pytest.raises(CommandError, match="takes no rows"):
            purge("q", "--yes")
        assert states(inspector, ids) == {"waiting": 2}
