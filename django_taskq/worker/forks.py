"""End the process that a task forked when it comes out of the task's body.

It would go on as a second worker otherwise: settle the task, run others, and write to the board that it shares.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType

#: How many forks there are between this process and the first that imported this; asking for its id takes longer.
_generation = 0


def _note_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_note_fork)


class Body:
    """Surrounds a user's body; only the process that entered it leaves it."""

    __slots__ = ("_entered_in",)

    def __enter__(self) -> None:
        self._entered_in = _generation

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered_in != _generation:
            _end(error)


def _end(error: BaseException | None) -> None:
    """End this process as Python would have, but without the clean-up of what is its parent's."""
    code = 0
    try:
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            code = error.code or 0
        elif error is not None:
            code = 1
            traceback.print_exception(error)
    finally:
        os._exit(code & 0xFF)
