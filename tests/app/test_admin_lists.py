"""The admin's lists: what they show, in which order, and how they are filtered and searched."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.test import override_settings

from django_taskq.compat import task_backends
from django_taskq.dashboard import recordset
from tests.app.admin import VIEW, bury, bury_many, client_of, died_at, error, rows, text_of, url
from tests.broker.helpers import envelope, lapse, lease_one, put

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker(backend):
    return backend.broker


@pytest.fixture
def viewer(backend):
    return client_of(*VIEW)


@pytest.fixture(autouse=True)
def has_time(monkeypatch):
    """Let a search end by what it finds, and not by how busy the machine is."""
    monkeypatch.setattr(recordset, "SEARCH_SECONDS", 60)


def choices(response, title):
    """Return what a filter offers."""
    (spec,) = [spec for spec in response.context["cl"].filter_specs if str(spec.title) == title]
    return [str(choice["display"]) for choice in spec.choices(response.context["cl"])]


def test_the_index_links_the_lists(viewer):
    page = text_of(viewer.get("/admin/"))
    for model in ("queue", "lease", "deadletter"):
        assert f'href="{url(model)}"' in page


def test_on_another_site_every_link_stays_there(viewer, broker):
    record_id = bury(broker)
    for path in ("deadletter/", f"deadletter/default_3A{record_id}/change/", "queue/", "lease/"):
        page = text_of(viewer.get(f"/other/django_taskq/{path}"))
        assert "/other/django_taskq/" in page
        assert "/admin/django_taskq/" not in page


def test_a_lease_shows_who_works_on_what_and_for_how_long(viewer, broker):
    lease = lease_one(broker, "mail", child="web-1.abc", envelope=envelope("shop.mail", max_attempts=5))
    page = text_of(viewer.get(url("lease")))
    for text in ("shop.mail", lease.id, "mail", "web-1.abc", "1 of 5", str(lease.token)):
        assert text in page
    assert " s</td>" in page or " s<" in page


def test_a_lapsed_lease_says_so_in_words(viewer, broker):
    lapse(broker, lease_one(broker), ago=90_000)
    assert "lapsed 1 min 30 s ago" in text_of(viewer.get(url("lease")))


def test_leases_that_end_first_come_first(viewer, broker):
    later, sooner = lease_one(broker, "a"), lease_one(broker, "b")
    lapse(broker, sooner)
    assert rows(viewer.get(url("lease"))) == [sooner.id, later.id]


def test_leases_are_filtered_by_worker(viewer, broker):
    lease_one(broker, "a", child="one.a")
    other = lease_one(broker, "b", child="two.b")
    response = viewer.get(url("lease"), {"worker": "two.b"})
    assert rows(response) == [other.id]
    assert choices(response, "worker") == ["All", "one.a (1)", "two.b (1)"]


def test_a_dead_letter_shows_what_failed_where_and_why(viewer, broker):
    record_id = bury(broker, "mail", "shop.mail", error("smtplib.Refused", "<no> mailbox"), max_attempts=1)
    page = text_of(viewer.get(url("deadletter")))
    for text in ("shop.mail", record_id, "Refused", "&lt;no&gt; mailbox", "1 of 1", "s ago"):
        assert text in page


def test_the_latest_dead_letters_come_first_and_the_order_can_be_turned(viewer, broker):
    ids = [bury(broker, queue) for queue in ("a", "b", "a")]
    for number, (record_id, queue) in enumerate(zip(ids, "aba", strict=True)):
        broker.client.zadd(broker.keys.dead(queue), {record_id: 1_000_000 + number})
    assert rows(viewer.get(url("deadletter"))) == ids[::-1]
    assert rows(viewer.get(url("deadletter"), {"o": "4"})) == ids
    assert rows(viewer.get(url("deadletter"), {"o": "-4"})) == ids[::-1]
    assert rows(viewer.get(url("deadletter"), {"o": "0.99.x.-4"})) == ids[::-1]


def test_a_page_behind_the_end_shows_the_last_one_and_keeps_the_filters(viewer, broker):
    bury_many(broker, 60, "mail")
    bury_many(broker, 3, "other")
    response = viewer.get(url("deadletter"), {"p": "9999", "queue": "mail"})
    assert response.context["cl"].page_num == 2
    assert len(rows(response)) == 10
    first = viewer.get(url("deadletter"), {"queue": "mail"})
    assert len(rows(first)) == 50
    assert not set(rows(first)) & set(rows(response))


def test_filters_combine_and_count(viewer, broker):
    wanted = bury(broker, "mail", "shop.mail", error("a.Refused"))
    bury(broker, "mail", "shop.mail", error("a.Closed"))
    bury(broker, "mail", "shop.pay", error("a.Refused"))
    bury(broker, "other", "shop.mail", error("a.Refused"))
    response = viewer.get(url("deadletter"), {"queue": "mail", "task": "shop.mail", "error": "a.Refused"})
    assert rows(response) == [wanted]
    assert choices(response, "task") == ["All", "shop.mail (1)", "shop.pay (1)"]
    assert choices(response, "error") == ["All", "a.Closed (1)", "a.Refused (1)"]
    assert "?queue=mail&amp;task=shop.mail" in text_of(response)


def test_queues_are_counted_without_looking_inside(viewer, broker):
    bury_many(broker, 3, "mail")
    bury_many(broker, 2, "other")
    put(broker, 5, "empty")
    assert choices(viewer.get(url("deadletter")), "queue") == ["All", "mail (3)", "other (2)"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("mailbox", True),
        ("MAILBOX full", True),
        ('"mailbox full"', True),
        ('"full mailbox"', False),
        ("task:shop.mail", True),
        ("queue:mail error:refused", True),
        ("arg:eva", True),
        ("arg:mailbox", False),
        ("task:mailbox", False),
        ("hunter2", False),
        ("arg:password", True),
    ],
)
def test_a_search_finds_texts_but_no_secrets(viewer, broker, search, found):
    failure = error("smtplib.Refused", "mailbox full")
    record_id = bury(broker, "mail", "shop.mail", failure, args=["eva"], kwargs={"password": "hunter2"})
    bury(broker, "other", "shop.pay")
    assert rows(viewer.get(url("deadletter"), {"q": search})) == ([record_id] if found else [])


@pytest.mark.parametrize("form", ["{}", "id:{}"])
def test_an_id_is_found_at_once_however_many_there_are(viewer, broker, monkeypatch, form):
    monkeypatch.setattr(recordset, "SEARCHED", 1)
    record_id = bury(broker)
    bury_many(broker, 5)
    assert rows(viewer.get(url("deadletter"), {"q": form.format(record_id)})) == [record_id]
    assert rows(viewer.get(url("deadletter"), {"q": form.format("0" * 26)})) == []


@pytest.mark.parametrize("order", ["", "4"])
def test_a_long_search_says_how_far_it_went_and_goes_on(viewer, broker, monkeypatch, order):
    monkeypatch.setattr(recordset, "SEARCHED", 4)
    monkeypatch.setattr(recordset, "_STEP", 2)
    wanted = bury(broker, "a", "shop.rare")
    ids = bury_many(broker, 10, "b")
    for number, record_id in enumerate([*ids[:5], wanted, *ids[5:]]):
        broker.client.zadd(broker.keys.dead("a" if record_id == wanted else "b"), {record_id: 1_000 + number // 3})
    query = {"q": "task:rare", **({"o": order} if order else {})}
    response = viewer.get(url("deadletter"), query)
    seen, path = rows(response), url("deadletter")
    texts = []
    while link := next((note["url"] for note in response.context["notes"] if "Continue" in note.get("link", "")), ""):
        texts.append(response.context["notes"][0]["text"])
        response = viewer.get(path + link)
        seen += rows(response)
    texts.append(response.context["notes"][0]["text"])
    assert seen == [wanted]
    assert texts == ["Searched 1 to 4 of 11.", "Searched 5 to 8 of 11.", "Searched 9 to 11 of 11."]


def test_what_matches_nothing_differs_from_what_is_empty(viewer, broker):
    assert "There are none." in text_of(viewer.get(url("deadletter")))
    bury(broker)
    page = text_of(viewer.get(url("deadletter"), {"q": "nothing"}))
    assert "Nothing matches." in page
    assert "Clear filters and search" in page


@pytest.mark.parametrize("query", ["foo=1", "key=x", "key__in=a,b", "shown__x=1", "queue__exact=mail"])
def test_an_unknown_filter_leads_back_to_the_list(viewer, broker, query):
    response = viewer.get(f"{url('deadletter')}?{query}", follow=True)
    assert response.redirect_chain == [(f"{url('deadletter')}?e=1", 302)]
    text_of(response)


@pytest.mark.parametrize(
    "query",
    [
        "p=x",
        "o=x.-",
        "after=x",
        "after=-5",
        "after=9.9.9",
        "after=-" + "9" * 5000 + ".1",
        "p=" + "9" * 5000,
        "q=%22",
        "q=:",
        "queue=",
        "all=",
    ],
)
def test_odd_parameters_do_no_harm(viewer, broker, query):
    bury(broker)
    text_of(viewer.get(f"{url('deadletter')}?{query}"))


def test_queues_show_their_depths(viewer, broker):
    put(broker, 3, "mail")
    put(broker, 2, "mail", delay_ms=60_000)
    lease_one(broker, "other")
    bury(broker, "other")
    response = viewer.get(url("queue"))
    counts = {queue.identifier: queue.shown.counts for queue in response.context["cl"].result_list}
    assert (counts["mail"].ready, counts["mail"].scheduled) == (3, 2)
    assert (counts["other"].leased, counts["other"].dead) == (1, 1)
    assert f'href="{url("deadletter")}?backend=default&amp;queue=other"' in text_of(response)
    assert rows(viewer.get(url("queue"), {"o": "-1"})) == ["mail", "other"]
    assert rows(viewer.get(url("queue"), {"o": "1"})) == ["other", "mail"]
    assert rows(viewer.get(url("queue"), {"q": "THE"})) == ["other"]


@pytest.mark.parametrize("name", ["a/b.c ü", "x" * 100, "_3A", "a?b&c=d#e", "<i>q</i>"])
def test_odd_queue_names_have_their_pages(viewer, broker, name):
    bury(broker, name)
    page = text_of(viewer.get(url("queue")))
    assert "<i>q" not in page
    text_of(viewer.get(viewer_link(page, "/queue/")))
    assert len(rows(viewer.get(url("deadletter"), {"queue": name}))) == 1


def viewer_link(page, part):
    """Return the first address of an object's page."""
    return next(link.partition('"')[0] for link in page.split('href="') if part in link and "/change/" in link)


def test_one_backend_is_shown_at_a_time(backend, viewer):
    entry = {**backend.params}
    other = {**entry, "OPTIONS": {**entry["OPTIONS"], "namespace": "second"}}
    with override_settings(TASKS={"default": entry, "se:cond": other, "dummy": {"BACKEND": dummy()}}):
        first = bury(task_backends["default"].broker)
        second = bury(task_backends["se:cond"].broker)
        page = viewer.get(url("deadletter"))
        assert rows(page) == [first]
        assert "?backend=se%3Acond" in text_of(page)
        assert "dummy" not in text_of(page)
        page = viewer.get(url("deadletter"), {"backend": "se:cond"})
        assert rows(page) == [second]
        assert f"se_3Acond_3A{second}" in text_of(page)
        text_of(viewer.get(viewer_link(text_of(page), "/deadletter/")))
        assert rows(viewer.get(url("deadletter"), {"backend": "nonesuch"})) == [first]


def dummy():
    return type(task_backends["default"]).__mro__[1].__module__.replace("base", "dummy") + ".DummyBackend"


def test_without_a_backend_on_redis_the_lists_say_so(viewer):
    with override_settings(TASKS={"default": {"BACKEND": dummy()}}):
        for model in ("queue", "lease", "deadletter"):
            assert "No entry of TASKS uses RedisBackend." in text_of(viewer.get(url(model)))


def test_a_list_asks_the_database_little_and_redis_less(viewer, broker, django_assert_max_num_queries):
    bury_many(broker, 60)
    viewer.get(url("deadletter"))
    broker.client.config_resetstat()
    with django_assert_max_num_queries(6):
        viewer.get(url("deadletter"))
    assert broker.client.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    assert not LogEntry.objects.exists()


def test_a_post_without_an_action_reads_one_page_only(viewer, broker, monkeypatch):
    bury_many(broker, 60)
    shown = []
    original = recordset.RecordSet._instance
    monkeypatch.setattr(recordset.RecordSet, "_instance", lambda self, row: shown.append(row) or original(self, row))
    text_of(viewer.post(url("deadletter")))
    assert len(shown) == 50


def test_records_that_are_gone_or_undecodable_are_still_listed(viewer, broker):
    lost, odd = bury(broker), bury(broker)
    broker.client.delete(broker.keys.task(lost))
    broker.client.setrange(broker.keys.task(odd), broker.client.strlen(broker.keys.task(odd)) - 1, "x")
    response = viewer.get(url("deadletter"))
    assert sorted(rows(response)) == sorted([lost, odd])
    assert text_of(response).count("(undecodable)") >= 2
    assert rows(viewer.get(url("deadletter"), {"task": ""})) == rows(response)
    broker.client.zrem(broker.keys.dead("default"), lost)  # or the leak check finds it
    broker.client.delete(broker.keys.run(lost), broker.keys.log(lost))


def test_died_counts_from_the_servers_clock(viewer, broker):
    record_id = bury(broker)
    broker.client.zadd(broker.keys.dead("default"), {record_id: died_at(broker, record_id) - 3 * 3_600_000})
    assert "3\xa0hours ago" in text_of(viewer.get(url("deadletter")))
