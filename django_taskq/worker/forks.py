"""End the process that a task forked when it comes out of the task's body.

It would go on as a second worker otherwise: settle the task, run others, and write to the board that it shares.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType


class Body:
    """Surrounds a user's body; only the process that entered it leaves it."""

    __slots__ = ("_process",)

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
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
