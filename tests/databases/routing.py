"""Where the tests send task records."""

from __future__ import annotations

from typing import Any

#: The alias of the database under test.
ALIAS = "records"


class ToRecords:
    """A router that sends task records to the database under test, and nothing else."""

    def db_for_read(self, model: type, **hints: Any) -> str | None:
        return ALIAS if model.__name__ == "TaskRecord" else None

    db_for_write = db_for_read
