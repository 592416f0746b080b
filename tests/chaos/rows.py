"""The database of a kill run, and whether its rows agree with Redis afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.databases.engines import ENGINES, Engine

ROOT = Path(__file__).resolve().parents[2]


class Database:
    """An empty database of one kind, with the table of task records."""

    def __init__(self, name: str, folder: Path) -> None:
        self.engine: Engine | None = None
        if name == "sqlite":
            options = {"init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE", "timeout": 20}
            file = str(folder / "records.sqlite3")
            entry: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "OPTIONS": options}
        else:
            self.engine = ENGINES[name]().start()
            entry = self.engine.settings()
        #: What the processes of the run must have in their environment.
        self.environment = {"TASKQ_TEST_RECORDS": json.dumps({"database": entry})}

    def migrate(self, environment: dict[str, str]) -> None:
        command = [
            sys.executable,
            "-m",
            "django",
            "migrate",
            "django_taskq",
            "--database",
            "records",
            "--verbosity",
            "0",
        ]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=60)

    def faults(self, records: Sequence[Any], environment: dict[str, str]) -> tuple[dict[str, object], list[str]]:
        """Count the rows; the list names those that say something else than Redis, and those that are missing."""
        import django

        os.environ.update(environment)
        django.setup()
        from django_taskq import rows
        from django_taskq.models import TaskRecord

        found = {row.pk: rows.to_record(row) for row in TaskRecord.objects.iterator()}
        faults = []
        for record in filter(None, records):
            row = found.pop(record.id, None)
            # Not when it was claimed first: a child doesn't know of claims that were given back.
            compared = ("state", "attempts", "token", "result", "worker_ids", "last_attempted_at")
            if row is None:
                faults.append(f"{record.id}: no row")
            elif differing := [name for name in compared if getattr(row, name) != getattr(record, name)]:
                said = {name: (getattr(row, name), getattr(record, name)) for name in differing}
                faults.append(f"{record.id}: the row differs from Redis: {said}")
        faults += [f"{record_id}: a row of a task that nobody enqueued" for record_id in found]
        return {"rows": TaskRecord.objects.count(), "rows that differ from Redis": len(faults)}, faults

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
