"""The file that the tasks of the kill run note in; short appends to one file don't mix."""

from __future__ import annotations

import os

#: Names the file.
NOTES = "TASKQ_CHAOS_NOTES"

_file = -1


def note(*words: object) -> None:
    """Add a line."""
    global _file
    if _file < 0:
        _file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_file, (" ".join(map(str, words)) + "\n").encode())
