"""The admin's pages over Redis, registered with the default site.

A project with a site of its own calls `register(site)`.
"""

from __future__ import annotations

from django.contrib import admin

from .dashboard.deadletters import DeadLetterAdmin
from .dashboard.leases import LeaseAdmin
from .dashboard.queues import QueueAdmin
from .dashboard.taskrecords import TaskRecordAdmin
from .models import DeadLetter, Lease, Queue, TaskRecord

__all__ = ["DeadLetterAdmin", "LeaseAdmin", "QueueAdmin", "TaskRecordAdmin", "register"]


def register(site: admin.AdminSite) -> None:
    """Register all pages with a site."""
    site.register(Queue, QueueAdmin)
    site.register(Lease, LeaseAdmin)
    site.register(DeadLetter, DeadLetterAdmin)
    site.register(TaskRecord, TaskRecordAdmin)


register(admin.site)
