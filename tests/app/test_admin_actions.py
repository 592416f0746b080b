"""Retry and discard in the admin: one, some, or all that match; asked first, logged once, and safe to send twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from django.contrib.admin.models import CHANGE, DELETION

from django_taskq.broker.exceptions import BrokerUnavailable
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import State
from django_taskq.dashboard import operations
from tests.app.admin import (
    VIEW,
    bury,
    bury_many,
    client_of,
    died_at,
    entries,
    error,
    letter_url,
    messages_of,
    rows,
    text_of,
    token_of,
    url,
)
from tests.broker.helpers import claim, envelope, lease_one, put, read

pytestmark = pytest.mark.django_db

RETRY, DISCARD = url("deadletter", "retry"), url("deadletter", "discard")
PATHS = {"retry": RETRY, "discard": DISCARD}
STATES = {"retry": State.WAITING, "discard": State.CANCELLED}


@pytest.fixture
def broker(backend):
    return backend.broker


@pytest.fixture
def client(backend):
    return client_of(*VIEW, "retry_deadletter", "discard_deadletter")


def states(broker, ids):
    return Counter(str(record.state) for record in Inspector(broker).records(ids))


def confirm_selected(client, verb, ids, query="", **fields):
    keys = [f"default:{record_id}" for record_id in ids]
    data = {"action": f"{verb}_selected", "index": 0, "_selected_action": keys, **fields}
    return client.post(f"{url('deadletter')}{query}", data)


def send(client, verb, page, follow=True):
    return client.post(PATHS[verb], {"op": token_of(text_of(page))}, follow=follow)


def finish(client, verb, response):
    """Go on until it is done; return the last page and how many requests it took."""
    requests = 1
    while "progress" in response.request["PATH_INFO"]:
        response = client.post(PATHS[verb], {"op": response.context["token"]}, follow=True)
        requests += 1
    return response, requests


def test_a_letter_is_retried_with_a_button_on_its_page(client, broker):
    record_id = bury(broker)
    response = send(client, "retry", client.get(letter_url(record_id)))
    assert messages_of(response) == ["1 dead letter was retried."]
    assert read(broker, record_id).state is State.WAITING
    assert read(broker, record_id).attempts == 0
    (entry,) = entries()
    assert (entry.object_id, entry.action_flag) == (f"default:{record_id}", CHANGE)
    assert json.loads(entry.change_message)["done"] == 1
    page = text_of(client.get(letter_url(record_id)))
    assert "its state is now “waiting”" in page
    assert "Retried." in page
    assert "staff" in page
    assert "Retried." in text_of(client.get(letter_url(record_id, "history")))


def test_a_letter_is_discarded_after_it_was_asked(client, broker):
    record_id = bury(broker)
    page = text_of(client.get(letter_url(record_id)))
    link = next(part.partition('"')[0] for part in page.split('href="') if part.startswith(DISCARD))
    question = client.get(link.replace("&amp;", "&"))
    assert record_id in text_of(question)
    assert read(broker, record_id).state is State.DEAD
    response = send(client, "discard", question)
    assert messages_of(response) == ["1 dead letter was discarded."]
    assert read(broker, record_id).state is State.CANCELLED
    (entry,) = entries()
    assert (entry.object_id, entry.action_flag) == (f"default:{record_id}", DELETION)


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_selected_letters_are_asked_for_and_nothing_else_is_touched(client, broker, verb):
    ids = bury_many(broker, 5)
    question = confirm_selected(client, verb, ids[:3])
    assert all(record_id in text_of(question) for record_id in ids[:3])
    assert ids[4] not in text_of(question)
    assert states(broker, ids) == {"dead": 5}
    response = send(client, verb, question)
    assert states(broker, ids[:3]) == {STATES[verb]: 3}
    assert states(broker, ids[3:]) == {"dead": 2}
    (entry,) = entries()
    assert entry.object_id is None
    assert json.loads(entry.change_message)["selected"] == 3
    assert response.redirect_chain[-1][0].startswith(url("deadletter"))


def test_all_that_a_filtered_list_shows_are_retried_and_no_others(client, broker):
    mail, other = bury_many(broker, 60, "mail"), bury_many(broker, 4, "other")
    shown = rows(client.get(url("deadletter"), {"queue": "mail"}))
    question = confirm_selected(client, "retry", shown, "?queue=mail", select_across=1)
    response = send(client, "retry", question)
    assert messages_of(response) == ["60 dead letters were retried."]
    assert (states(broker, mail), states(broker, other)) == ({"waiting": 60}, {"dead": 4})
    assert response.redirect_chain[-1][0] == f"{url('deadletter')}?queue=mail"
    (entry,) = entries()
    kept = json.loads(entry.change_message)
    assert (kept["filter"], kept["done"], entry.object_id) == ({"queue": "mail"}, 60, None)


@pytest.mark.parametrize("query", ["task=shop.rare", "error=a.Rare", "q=rare", "q=task:rare&queue=mail"])
def test_all_that_match_a_search_are_retried_without_a_selection(client, broker, query):
    rare = bury_many(broker, 3, "mail", "shop.rare", error("a.Rare"))
    other = bury_many(broker, 20, "mail")
    page = text_of(client.get(f"{url('deadletter')}?{query}"))
    link = next(part.partition('"')[0] for part in page.split('href="') if part.startswith(RETRY))
    question = client.get(link.replace("&amp;", "&"))
    assert "shop.rare" in text_of(question)
    response = send(client, "retry", question)
    assert messages_of(response) == ["3 dead letters were retried."]
    assert (states(broker, rare), states(broker, other)) == ({"waiting": 3}, {"dead": 20})


def test_a_search_for_an_id_means_that_letter_only(client, broker):
    ids = bury_many(broker, 3)
    response = send(client, "discard", client.get(DISCARD, {"q": ids[0]}))
    assert messages_of(response) == ["1 dead letter was discarded."]
    assert states(broker, ids) == {"cancelled": 1, "dead": 2}


def test_what_cannot_be_decoded_can_be_discarded_by_its_filter(client, broker):
    odd = lease_one(broker, "default", envelope=b"no json")
    broker.bury(odd, error())
    other = bury(broker)
    response = send(client, "discard", client.get(DISCARD, {"task": ""}))
    assert messages_of(response) == ["1 dead letter was discarded."]
    assert states(broker, [odd.id, other]) == {"cancelled": 1, "dead": 1}


def test_what_dies_after_the_question_is_not_touched(client, broker):
    early = bury_many(broker, 3)
    question = client.get(RETRY)
    late = bury(broker)
    broker.client.zadd(broker.keys.dead("default"), {late: died_at(broker, late) + 5})
    send(client, "retry", question)
    assert (states(broker, early), states(broker, [late])) == ({"waiting": 3}, {"dead": 1})


def test_a_letter_that_died_again_since_the_question_is_not_touched(client, broker):
    record_id = bury(broker)
    question = confirm_selected(client, "discard", [record_id])
    broker.requeue([(record_id, died_at(broker, record_id), 0)])
    (lease,) = claim(broker, queues=["default"]).leases
    broker.bury(lease, error())
    broker.client.zadd(broker.keys.dead("default"), {record_id: died_at(broker, record_id) + 5})
    response = send(client, "discard", question)
    assert messages_of(response)[1] == "1 was already gone or has changed since."
    assert read(broker, record_id).state is State.DEAD
    page = text_of(client.get(letter_url(record_id, "history")))
    assert "Tried to discard. 1 was already gone" in page


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_sending_it_again_does_nothing_and_is_not_logged_twice(client, broker, verb):
    ids = bury_many(broker, 3)
    question = client.get(PATHS[verb])
    send(client, verb, question)
    later = bury(broker, "later")
    broker.client.zadd(broker.keys.dead("later"), {later: died_at(broker, later, "later") + 5})
    response = send(client, verb, question)
    assert messages_of(response)[-1].startswith("0 dead letters were")
    assert states(broker, ids) == {STATES[verb]: 3}
    assert read(broker, later).state is State.DEAD
    (entry,) = entries()
    assert json.loads(entry.change_message)["done"] == 3


def test_an_identical_task_that_is_queued_is_not_doubled(client, broker):
    record_id = bury_keyed(broker, "order-17")
    free = bury(broker)
    put(broker, queue="default", key="order-17")
    response = send(client, "retry", client.get(RETRY))
    assert messages_of(response) == [
        "1 dead letter was retried.",
        "1 was skipped: an identical task is already queued.",
    ]
    assert states(broker, [record_id, free]) == {"dead": 1, "waiting": 1}


def bury_keyed(broker, key):
    lease = lease_one(broker, "default", key=key, envelope=envelope("shop.pay"))
    broker.bury(lease, error())
    return lease.id


def test_selected_letters_that_are_gone_are_said_to_be(client, broker):
    kept, gone = bury_many(broker, 2)
    broker.discard([(gone, died_at(broker, gone))])
    page = text_of(confirm_selected(client, "retry", [kept, gone]))
    assert "One that was selected is already gone." in page
    page = text_of(confirm_selected(client, "retry", [gone]))
    assert "There is nothing left to do" in page


def test_without_a_selection_nothing_happens(client, broker):
    record_id = bury(broker)
    response = client.post(url("deadletter"), {"action": "retry_selected", "index": 0}, follow=True)
    assert "Items must be selected" in messages_of(response)[0]
    assert read(broker, record_id).state is State.DEAD


def test_thousands_are_done_in_steps_with_one_log_entry(client, broker, monkeypatch):
    monkeypatch.setattr(operations, "SECONDS", 0)
    mail, other = bury_many(broker, 1500, "mail"), bury_many(broker, 700, "other")
    late = bury(broker, "mail")
    question = client.get(DISCARD)
    broker.client.zadd(broker.keys.dead("mail"), {late: died_at(broker, late, "mail") + 5})
    response = send(client, "discard", question)
    assert 'max="2201"' in text_of(response)
    assert 'value="1000"' in text_of(response)
    assert states(broker, [*mail, *other]) == {"cancelled": 1000, "dead": 1200}
    response, requests = finish(client, "discard", response)
    assert requests == 4
    assert messages_of(response) == ["2,200 dead letters were discarded."]
    assert states(broker, [late]) == {"dead": 1}
    (entry,) = entries()
    assert json.loads(entry.change_message)["done"] == 2200


def test_letters_that_do_not_match_are_passed_by_though_they_died_at_one_moment(client, broker, monkeypatch):
    monkeypatch.setattr(operations, "SECONDS", 0)
    monkeypatch.setattr(operations, "BATCH_RECORDS", 7)
    ids = bury_many(broker, 30, "mail") + bury_many(broker, 10, "mail", "shop.rare")
    broker.client.zadd(broker.keys.dead("mail"), dict.fromkeys(ids, 1_000_000))
    response, _ = finish(client, "retry", send(client, "retry", client.get(RETRY, {"task": "shop.rare"})))
    assert messages_of(response) == ["10 dead letters were retried."]


def test_when_redis_fails_midway_it_halts_and_can_be_gone_on_with(client, broker, monkeypatch):
    ids = bury_many(broker, 2000)
    question = client.get(RETRY)
    working = operations.act
    calls = []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise BrokerUnavailable("down", maybe_executed=False)
        return working(*arguments)

    monkeypatch.setattr(operations, "act", failing)
    response = send(client, "retry", question)
    page = text_of(response)
    assert "It has come to a halt: Redis can&#x27;t be reached: down" in page
    assert "progress.js" not in page
    assert states(broker, ids) == {"waiting": 1000, "dead": 1000}
    response, _ = finish(client, "retry", response)
    assert messages_of(response) == ["2,000 dead letters were retried."]
    (entry,) = entries()
    kept = json.loads(entry.change_message)
    assert (kept["done"], "error" in kept) == (2000, False)


def test_the_way_back_leads_to_the_same_filtered_page(client, broker):
    ids = bury_many(broker, 60, "mail")
    record_id = rows(client.get(url("deadletter"), {"queue": "mail", "p": "2"}))[0]
    question = confirm_selected(client, "retry", [record_id], "?p=2&queue=mail")
    assert f'href="{url("deadletter")}?p=2&amp;queue=mail"' in text_of(question)
    filters = "?_changelist_filters=p%3D2%26queue%3Dmail"
    page = client.get(letter_url(record_id) + filters)
    response = send(client, "retry", page)
    assert response.redirect_chain[-1][0] == f"{url('deadletter')}?p=2&queue=mail"
    assert states(broker, ids) == {"dead": 59, "waiting": 1}


@pytest.mark.parametrize("token", ["", "x", "x:y:z"])
def test_a_forged_or_old_token_changes_nothing(client, broker, token):
    record_id = bury(broker)
    response = client.post(RETRY, {"op": token}, follow=True)
    assert "too old" in messages_of(response)[0]
    assert client.get(url("deadletter", "retry_progress"), {"op": token}).status_code == 302
    assert read(broker, record_id).state is State.DEAD
    assert entries() == []


def test_a_token_is_good_for_its_user_and_its_verb_only(client, broker):
    record_id = bury(broker)
    token = token_of(text_of(client.get(RETRY)))
    other = client_of(*VIEW, "retry_deadletter", "discard_deadletter", name="other")
    other.post(RETRY, {"op": token})
    client.post(DISCARD, {"op": token})
    assert read(broker, record_id).state is State.DEAD
    client.post(RETRY, {"op": token})
    assert read(broker, record_id).state is State.WAITING
