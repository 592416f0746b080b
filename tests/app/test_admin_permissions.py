"""Who may do what: checked on each address, and reading changes nothing."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.test import Client, override_settings

from django_taskq.models import DeadLetter, Lease, Queue, TaskRecord
from tests.app.admin import VIEW, bury, bury_many, client_of, entries, letter_url, staff, text_of, token_of, url
from tests.broker.helpers import dump, lease_one, put

pytestmark = pytest.mark.django_db

ALL = (*VIEW, "retry_deadletter", "discard_deadletter")
RETRY, DISCARD = url("deadletter", "retry"), url("deadletter", "discard")


@pytest.fixture
def broker(backend):
    return backend.broker


def addresses(record_id, lease_id):
    """Return every page there is."""
    lists = [url(model) for model in ("queue", "lease", "deadletter")]
    objects = [letter_url(record_id), url("lease", "change", f"default_3A{lease_id}")]
    objects += [url("queue", "change", "default_3Adefault"), letter_url(record_id, "history")]
    questions = [RETRY, DISCARD, f"{DISCARD}?key=default:{record_id}", f"{RETRY}?task=shop.pay"]
    return [*lists, f"{lists[2]}?q=shop&queue=default", f"{lists[2]}?task=shop.pay", *objects, *questions]


def test_permissions_exist_for_models_without_a_table():
    names = set(Permission.objects.filter(content_type__app_label="django_taskq").values_list("codename", flat=True))
    assert names == {*ALL, "view_taskrecord"}


def test_who_has_no_permission_sees_nothing(broker):
    record_id, lease = bury(broker), lease_one(broker, "x")
    client = client_of()
    assert "django_taskq" not in client.get("/admin/").content.decode()
    for path in addresses(record_id, lease.id):
        assert client.get(path).status_code == 403, path
        assert client.post(path).status_code == 403, path


def test_who_is_not_logged_in_is_asked_to(broker):
    record_id, lease = bury(broker), lease_one(broker, "x")
    for path in addresses(record_id, lease.id):
        response = Client().get(path)
        assert response.status_code == 302
        assert response["Location"].startswith("/admin/login/?next=")
        assert Client().post(path).status_code == 302


def test_who_may_only_look_is_offered_no_action_and_refused_one(broker):
    record_id = bury(broker)
    token = token_of(text_of(client_of(*ALL, name="other").get(RETRY)))
    before = dump(broker)
    client = client_of(*VIEW)
    for path in (url("deadletter"), letter_url(record_id)):
        page = text_of(client.get(path))
        assert "Retry" not in page
        assert "Discard" not in page
        assert 'name="action"' not in page
    for path in (RETRY, DISCARD, url("deadletter", "retry_progress"), url("deadletter", "discard_progress")):
        assert client.get(path).status_code == 403
        assert client.post(path, {"op": token}).status_code == 403
    forged = {"action": "retry_selected", "index": 0, "_selected_action": f"default:{record_id}", "select_across": 1}
    client.post(url("deadletter"), forged)
    assert dump(broker) == before
    assert entries() == []


@pytest.mark.parametrize(("verb", "other"), [("retry", "discard"), ("discard", "retry")])
def test_each_action_has_a_permission_of_its_own(broker, verb, other):
    record_id = bury(broker)
    client = client_of(*VIEW, f"{verb}_deadletter")
    assert client.get(url("deadletter", verb)).status_code == 200
    assert client.get(url("deadletter", other)).status_code == 403
    assert client.post(url("deadletter", other)).status_code == 403
    page = text_of(client.get(url("deadletter")))
    assert f"{verb}_selected" in page
    assert f"{other}_selected" not in page
    page = text_of(client.get(letter_url(record_id)))
    assert verb.capitalize() in page
    assert other.capitalize() not in page


def test_to_act_one_must_also_be_allowed_to_look(broker):
    bury(broker)
    assert client_of("retry_deadletter").get(RETRY).status_code == 403


def test_nothing_can_be_added_changed_or_deleted(broker):
    record_id, lease = bury(broker), lease_one(broker, "x")
    before = dump(broker)
    client = Client()
    client.force_login(staff(name="root"))
    client.force_login(type(staff(name="a")).objects.create(username="super", is_staff=True, is_superuser=True))
    for model, key in (("deadletter", record_id), ("lease", lease.id), ("queue", "default")):
        object_id = f"default_3A{key}"
        for path in (url(model, "add"), url(model, "delete", object_id)):
            assert client.get(path).status_code == 403, path
            assert client.post(path, {"post": "yes"}).status_code == 403, path
        assert client.post(url(model, "change", object_id), {"key": "x", "_save": "1"}).status_code == 403
        client.post(url(model), {"action": "delete_selected", "index": 0, "_selected_action": f"default:{key}"})
    assert dump(broker) == before


def test_a_post_without_the_csrf_token_is_refused(broker):
    bury(broker)
    client = Client(enforce_csrf_checks=True)
    client.force_login(staff(*ALL))
    token = token_of(text_of(client.get(RETRY)))
    before = dump(broker)
    assert client.post(RETRY, {"op": token}).status_code == 403
    assert dump(broker) == before


@pytest.fixture
def reader(redis_server, redis_client):
    """Make a user of Redis who may read and run scripts, but write nothing."""
    redis_client.acl_setuser(
        "reader",
        enabled=True,
        reset=True,
        passwords=["+secret"],
        keys=["*"],
        categories=["+@read"],
        commands=["+evalsha", "+eval", "+time", "+ping", "+hello", "+client", "+select", "+multi", "+exec"],
    )
    entry = settings.TASKS["default"]
    url = redis_server.unix_url.replace("unix://", "unix://reader:secret@")
    with override_settings(TASKS={"default": {**entry, "OPTIONS": {"url": url}}}):
        yield
    redis_client.acl_deluser("reader")


def test_reading_writes_nothing_to_redis(broker, reader):
    record_id = bury(broker)
    bury_many(broker, 60, "mail")
    lease = lease_one(broker, "x")
    put(broker, 3, "due", delay_ms=1)
    client = client_of(*ALL)
    before = dump(broker)
    for path in addresses(record_id, lease.id):
        page = text_of(client.get(path))
        assert "errornote" not in page, path
    assert dump(broker) == before
    # The user really can't write.
    response = client.post(RETRY, {"op": token_of(text_of(client.get(RETRY)))}, follow=True)
    assert "It has come to a halt" in text_of(response)
    assert dump(broker) == before
    assert LogEntry.objects.count() == 1


def test_models_have_content_types():
    for model in (DeadLetter, Lease, Queue, TaskRecord):
        assert ContentType.objects.get_for_model(model).model_class() is model
