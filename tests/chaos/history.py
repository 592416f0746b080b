"""What happened, as every process of a run tells it: one line of JSON for each event, appended to one file.

A line is one write to a file opened for appending, so lines don't mix, and a process that is killed leaves none
half written. Each event has `what`, `at` (seconds of the monotonic clock, which all processes share and nobody shifts),
`who` and `pid`; the further fields stand where the event is noted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Names the file, and who this process is.
FILE, WHO = "TASKQ_CHAOS_HISTORY", "TASKQ_CHAOS_WHO"
#: Names what a process of a run is given, as JSON: `url`, `lease`, and `database`, an entry of DATABASES or null.
GIVEN = "TASKQ_CHAOS_GIVEN"

Event = dict[str, Any]

_file = -1


def note(what: str, **fields: Any) -> None:
    """Add an event."""
    note_all([(what, fields)])


def note_all(events: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Add some events, in one write."""
    global _file
    if _file < 0:
        _file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    common = {"at": time.monotonic(), "who": os.environ.get(WHO, "driver"), "pid": os.getpid()}
    lines = [json.dumps({"what": what, **common, **fields}, separators=(",", ":")) for what, fields in events]
    if lines:
        os.write(_file, ("\n".join(lines) + "\n").encode())


def read(path: Path) -> list[Event]:
    """Return all events of a file, in the order of their writing."""
    with open(path) as file:
        return [json.loads(line) for line in file]
