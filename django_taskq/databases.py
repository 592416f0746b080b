"""Which databases may hold task records, and whether they can."""

from __future__ import annotations

from django.db import DatabaseError, connections, router
from django.db.migrations.loader import MigrationLoader

from . import registry
from .models import TaskRecord
from .outbox import database_of
from .task import BackgroundTask


def databases(keeps_records: bool) -> list[str]:
    """Return the aliases of those in which a backend, or a task that was declared, has rows."""
    found = {router.db_for_write(TaskRecord)} if keeps_records else set()
    for task in registry.tasks():
        if isinstance(task, BackgroundTask) and (task.outbox or task.atomic):
            found |= {database_of(task), *([task.atomic] if isinstance(task.atomic, str) else ())}
    return sorted(found)


def table_problem(alias: str) -> str | None:
    """Return why a database can't hold task records as it is; raise what it raises when it can't be asked at all."""
    if alias not in connections:
        return f"DATABASES has no {alias!r}"
    connections[alias].ensure_connection()
    try:
        TaskRecord.objects.using(alias).filter(pk="").first()
    except DatabaseError as error:
        return f"its table of task records can't be used: {str(error).strip()}"
    loader = MigrationLoader(connections[alias])
    app = TaskRecord._meta.app_label
    pending = sorted(
        name for label, name in loader.disk_migrations if label == app if (label, name) not in loader.applied_migrations
    )
    return (
        f"its table of task records is older than this release: {', '.join(pending)} isn't applied" if pending else None
    )
