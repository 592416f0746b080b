"""The admin's list of task records: read from the database, and read only."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from django_taskq.broker.envelope import Envelope
from django_taskq.models import TaskRecord
from tests.app.admin import VIEW, bury, client_of, letter_url, text_of, url

pytestmark = pytest.mark.django_db

SEEN = (*VIEW, "view_taskrecord")


def keep(record_id, name="shop.pay", status="succeeded", **fields):
    """Store a row that finished just now."""
    envelope = Envelope(name, args=[17], kwargs={"note": "Grüße", "password": "hunter2"}).to_bytes().decode()
    known = {
        "backend": "default",
        "queue": "default",
        "envelope": envelope,
        "enqueued_at": timezone.now() - timedelta(hours=1),
        "started_at": timezone.now() - timedelta(minutes=2),
        "last_attempted_at": timezone.now() - timedelta(minutes=2),
        "finished_at": timezone.now(),
        "attempts": 1,
        "worker": "web-1.abc",
    }
    return TaskRecord.objects.create(id=record_id, task=name, status=status, **{**known, **fields})


def shown(response):
    return [row.pk for row in response.context["cl"].result_list]


@pytest.fixture
def viewer(backend):
    return client_of(*SEEN)


def test_rows_are_listed_the_latest_first(viewer):
    keep("A", finished_at=timezone.now() - timedelta(minutes=5))
    keep("B")
    response = viewer.get(url("taskrecord"))
    assert shown(response) == ["B", "A"]
    page = text_of(response)
    for text in ("shop.pay", "succeeded", "web-1.abc", "2 min 0 s", "1\xa0hour ago"):
        assert text in page


def test_rows_are_filtered_by_status_and_task(viewer):
    keep("A")
    keep("B", status="dead")
    keep("C", name="shop.mail")
    assert shown(viewer.get(url("taskrecord"), {"status__exact": "dead"})) == ["B"]
    assert shown(viewer.get(url("taskrecord"), {"task": "shop.mail"})) == ["C"]
    assert "shop.mail" in text_of(viewer.get(url("taskrecord"), {"task": "nonesuch"}))
    assert shown(viewer.get(url("taskrecord"), {"q": "B"})) == ["B"]


def test_rows_of_one_backend_are_shown_at_a_time(backend, viewer):
    keep("A")
    keep("B", backend="other")
    other = {**backend.params, "OPTIONS": {**backend.params["OPTIONS"], "namespace": "second"}}
    with override_settings(TASKS={"default": backend.params, "other": other}):
        assert shown(viewer.get(url("taskrecord"))) == ["A"]
        assert shown(viewer.get(url("taskrecord"), {"backend": "other"})) == ["B"]
        text_of(viewer.get(url("taskrecord", "change", "B")))


def test_a_row_shows_arguments_result_and_attempts(viewer):
    error = {"error": "shop.Declined", "message": "<b>no</b>", "traceback": "the traceback", "reason": ""}
    attempt = {"attempt": 1, "token": 7, "started_at": 1_000_000, "ended_at": 1_001_500, "child": "web-1.abc"}
    keep(
        "A",
        result='{"total":42,"secret":"hunter2"}',
        history=json.dumps([{**attempt, **error}, {**attempt, "attempt": 2}]),
    )
    page = text_of(viewer.get(url("taskrecord", "change", "A")))
    for text in (
        "17",
        "Grüße",
        "&quot;total&quot;: 42",
        "shop.Declined: &lt;b&gt;no&lt;/b&gt;",
        "the traceback",
        "1.5 s",
    ):
        assert text in page
    assert "hunter2" not in page


@pytest.mark.parametrize("fields", [{"envelope": "no json"}, {"history": "x"}, {"result": "{"}, {"envelope": "[]"}])
def test_odd_rows_have_their_page(viewer, fields):
    keep("A", **fields)
    text_of(viewer.get(url("taskrecord", "change", "A")))
    text_of(viewer.get(url("taskrecord")))


def test_a_row_and_its_dead_letter_lead_to_each_other(backend, viewer):
    record_id = bury(backend.broker)
    assert "taskrecord/" + record_id not in text_of(viewer.get(letter_url(record_id)))
    keep(record_id, status="dead")
    assert url("taskrecord", "change", record_id) in text_of(viewer.get(letter_url(record_id)))
    assert letter_url(record_id) in text_of(viewer.get(url("taskrecord", "change", record_id)))


def test_rows_are_read_only(viewer):
    keep("A")
    for page in ("add", "delete"):
        path = url("taskrecord", page, *(["A"] if page == "delete" else []))
        assert viewer.get(path).status_code == 403
        assert viewer.post(path, {"post": "yes"}).status_code == 403
    assert viewer.post(url("taskrecord", "change", "A"), {"task": "x", "_save": "1"}).status_code == 403
    viewer.post(url("taskrecord"), {"action": "delete_selected", "index": 0, "_selected_action": "A", "post": "yes"})
    assert TaskRecord.objects.get().task == "shop.pay"


def test_rows_need_a_permission_of_their_own(backend):
    keep("A")
    client = client_of(*VIEW)
    assert client.get(url("taskrecord")).status_code == 403
    assert url("taskrecord") not in text_of(client.get(url("queue")))


def test_rows_show_when_redis_is_down(viewer, backend):
    keep("A")
    entry = {**backend.params, "OPTIONS": {"url": "redis://127.0.0.1:1/0"}}
    with override_settings(TASKS={"default": entry}):
        response = viewer.get(url("taskrecord"))
        assert shown(response) == ["A"]
        assert "errornote" in text_of(response)
        assert "shop.pay" in text_of(viewer.get(url("taskrecord", "change", "A")))


def test_the_list_asks_little_of_the_database(viewer, django_assert_max_num_queries):
    for number in range(60):
        keep(f"R{number}")
    viewer.get(url("taskrecord"))
    with django_assert_max_num_queries(10):
        text_of(viewer.get(url("taskrecord")))


@pytest.mark.parametrize("use_tz", [True, False])
def test_times_are_right_with_and_without_time_zones(viewer, use_tz):
    with override_settings(USE_TZ=use_tz, TIME_ZONE="America/New_York"):
        now = timezone.now()
        keep("A", enqueued_at=now - timedelta(hours=3), last_attempted_at=now, finished_at=now)
        assert "3\xa0hours ago" in text_of(viewer.get(url("taskrecord")))
