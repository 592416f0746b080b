"""Users, dead letters and pages for the tests of the admin."""

from __future__ import annotations

import html
import re
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_taskq.broker.broker import Broker
from django_taskq.broker.records import AttemptError
from tests.broker.helpers import claim, envelope, lease_one, put, score

VIEW = ("view_deadletter", "view_lease", "view_queue")


def staff(*permissions: str, name: str = "staff") -> User:
    """Make a staff user with these permissions."""
    # Without a password, for hashing one takes longer than most tests.
    user = User.objects.create(username=name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    assert user.user_permissions.count() == len(permissions)
    return user


def client_of(*permissions: str, name: str = "staff") -> Client:
    """Log in a staff user with these permissions."""
    client = Client()
    client.force_login(staff(*permissions, name=name))
    return client


def error(name: str = "shop.Declined", message: str = "no money", traceback: str = "Traceback") -> bytes:
    return AttemptError(name, message, traceback).to_json()


def bury(
    broker: Broker, queue: str = "default", name: str = "shop.pay", failure: bytes | None = None, **fields: Any
) -> str:
    """Make a dead letter and return its id."""
    lease = lease_one(broker, queue, envelope=envelope(name, **fields))
    assert broker.bury(lease, failure or error()) == "DONE"
    return lease.id


def bury_many(
    broker: Broker, count: int, queue: str = "default", name: str = "shop.pay", failure: bytes | None = None
) -> list[str]:
    """Make many dead letters of one kind."""
    ids = put(broker, count, queue, envelope=envelope(name))
    while leases := claim(broker, 1000, queues=[queue]).leases:
        for lease in leases:
            broker.bury(lease, failure or error())
    return ids


def died_at(broker: Broker, record_id: str, queue: str = "default") -> int:
    return score(broker, record_id, "dead", queue)


def url(model: str, page: str = "changelist", *arguments: str, site: str = "admin") -> str:
    return reverse(f"admin:django_taskq_{model}_{page}", args=arguments, current_app=site)


def letter_url(record_id: str, page: str = "change", alias: str = "default") -> str:
    return url("deadletter", page, f"{alias}_3A{record_id}")


def rows(response: Any) -> list[str]:
    """Return the ids of the records in a list, in order."""
    return [found.identifier for found in response.context["cl"].result_list]


def token_of(page: str, name: str = "op") -> str:
    """Return the signed operation in a page."""
    match = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert match, page
    return html.unescape(match[1])


def text_of(response: Any) -> str:
    assert response.status_code == 200, response
    return response.content.decode()


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def entries() -> list[LogEntry]:
    return list(LogEntry.objects.order_by("pk"))
