"""Time limits of functions: an exception put into the thread that runs one.

Python raises it between two steps of the interpreter, so a thread that is inside a C call gets it when that returns.
What must hold is that it never strikes code outside the user's body. `__exit__` and the watcher share a lock; after
`__exit__` has disarmed, none is sent, and one that was sent and hasn't struck yet is taken back.
"""

from __future__ import annotations

import ctypes
import threading
import time
from types import TracebackType

from .board import Board
from .exceptions import TaskTimeout

#: Seconds until the watcher looks in any case: nobody can wait for a limit of a hundred years at once.
LONGEST_WAIT = 3600.0

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)
#: NULL, which takes back an exception that hasn't struck yet.
_NOTHING = ctypes.py_object()


class ThreadLimit:
    """Arms a time limit around a body, in the thread that enters it."""

    __slots__ = ("_armed", "_board", "_limits", "_lock", "_seconds", "_sent", "_slot", "_thread", "deadline")

    def __init__(self, limits: Limits, board: Board, slot: int, seconds: float) -> None:
        self._limits = limits
        self._board = board
        self._slot = slot
        self._seconds = seconds
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._armed = False
        self._sent = False
        self.deadline = 0.0

    def __enter__(self) -> None:
        self.deadline = time.monotonic() + self._seconds
        self._board.limit(self._slot, self.deadline)
        self._armed = True
        self._limits.watch(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._armed:
            try:
                self._disarm()
            except TaskTimeout:  # it struck here: the body had ended first
                continue
        self._limits.forget(self)
        self._board.limit(self._slot, 0)

    def _disarm(self) -> None:
        with self._lock:
            if self._sent:
                _raise_in_thread(self._thread, _NOTHING)
            self._armed = False

    def strike(self) -> None:
        """Raise `TaskTimeout` in the thread, unless the body has ended."""
        with self._lock:
            if self._armed and not self._sent:
                self._sent = True
                _raise_in_thread(self._thread, ctypes.py_object(TaskTimeout))


class Limits:
    """Watches the armed limits of a child, in a thread that starts with the first."""

    def __init__(self) -> None:
        self._armed: set[ThreadLimit] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        #: When the thread looks next.
        self._next = 0.0

    def watch(self, limit: ThreadLimit) -> None:
        with self._changed:
            self._armed.add(limit)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="limits", daemon=True)
                self._thread.start()
            elif limit.deadline < self._next:
                self._changed.notify()

    def forget(self, limit: ThreadLimit) -> None:
        with self._changed:
            self._armed.discard(limit)

    def _run(self) -> None:
        while True:
            for limit in self._due():
                limit.strike()

    def _due(self) -> list[ThreadLimit]:
        """Wait until limits have run out, and take them out."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = [limit for limit in self._armed if limit.deadline <= now]
                if due:
                    self._armed.difference_update(due)
                    return due
                self._next = min([now + LONGEST_WAIT, *(limit.deadline for limit in self._armed)])
                self._changed.wait(self._next - now)
