"""Whether a database can hold task records."""

from __future__ import annotations

from django.db import DatabaseError, connections

from .models import TaskRecord


def table_problem(alias: str) -> str | None:
    """Return why a database can't hold task records as it is; raise what it raises when it can't be asked at all."""
    if alias not in connections:
        return f"DATABASES has no {alias!r}"
    connections[alias].ensure_connection()
    try:
        # No record has such an id, and every column is named.
        TaskRecord.objects.using(alias).filter(pk="").first()
    except DatabaseError as error:
        return f"its table of task records isn't there, or isn't that of this release: {str(error).strip()}"
    return None


def remedy(alias: str) -> str:
    """Return what to do about that."""
    return f"Run manage.py migrate {TaskRecord._meta.app_label} --database {alias}"
