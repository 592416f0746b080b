"""What a person decides about dead letters stands in their rows, too, and there first."""

from __future__ import annotations

import pytest
from django.db import connection

from django_taskq.broker.inspector import Inspector
from django_taskq.dashboard import operations
from django_taskq.models import TaskRecord
from django_taskq.rows import from_record
from django_taskq.writing import write_finished
from tests.app.admin import VIEW, bury_many, client_of, died_at, messages_of, text_of, token_of, url

pytestmark = pytest.mark.django_db

STATUSES = {"retry": "waiting", "discard": "cancelled"}
either = pytest.mark.parametrize("verb", STATUSES)


@pytest.fixture
def broker(with_options):
    return with_options(records="finished").broker


@pytest.fixture
def client(broker):
    return client_of(*VIEW, "retry_deadletter", "discard_deadletter")


@pytest.fixture
def letters(broker):
    """Make dead letters with rows."""

    def make(count):
        ids = bury_many(broker, count)
        write_finished(from_record(record, "default") for record in Inspector(broker).records(ids))
        return ids

    return make


def statuses(ids):
    return [TaskRecord.objects.get(pk=record_id).status for record_id in ids]


def send(client, verb):
    page = url("deadletter", verb)
    return client.post(page, {"op": token_of(text_of(client.get(page)))}, follow=True)


@either
def test_the_rows_of_letters_that_were_acted_on_say_so(client, letters, verb):
    ids = letters(3)
    send(client, verb)
    assert statuses(ids) == [STATUSES[verb]] * 3


@either
def test_the_rows_say_so_before_redis_is_told(client, broker, letters, verb, monkeypatch):
    ids = letters(1)
    seen = []
    name = "requeue" if verb == "retry" else "discard"
    script = getattr(type(broker), name)
    monkeypatch.setattr(type(broker), name, lambda *given: seen.extend(statuses(ids)) or script(*given))
    send(client, verb)
    assert seen == [STATUSES[verb]]


@either
def test_the_row_of_a_letter_that_stays_dead_says_dead(broker, letters, verb):
    stays, goes, fresh = letters(3)
    chosen = [(stays, died_at(broker, stays) - 1), (goes, died_at(broker, goes))]
    assert operations.act(verb, Inspector(broker), chosen, True) == ["CHANGED", "DONE"]
    assert statuses([stays, goes, fresh]) == ["dead", STATUSES[verb], "dead"]


@either
def test_without_the_database_nothing_is_done_and_the_page_says_why(client, broker, letters, verb):
    ids = letters(2)
    table = TaskRecord._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    response = send(client, verb)
    assert "The database takes no rows" in text_of(response)
    assert {record.state for record in Inspector(broker).records(ids)} == {"dead"}


def test_other_rows_are_left_alone(client, broker, letters):
    ids = letters(2)
    TaskRecord.objects.filter(pk=ids[0]).update(status="succeeded")
    assert messages_of(send(client, "retry")) == ["2 dead letters were retried."]
    assert statuses(ids) == ["succeeded", "waiting"]
