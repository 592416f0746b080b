"""Signals, made into words that the supervisor's loop reads."""

from __future__ import annotations

import os
import signal
import socket
import threading
from enum import Enum
from types import FrameType
from typing import Any


class Order(Enum):
    """What a signal or another thread asks of the supervisor."""

    STOP = "claim no more, and end when what runs has ended"
    QUIT = "end now"
    DUMP = "show what every thread does and which leases are held"
    LOOK = "something changed, look at everything"


_ORDERS = {
    signal.SIGTERM: Order.STOP,
    signal.SIGINT: Order.STOP,
    signal.SIGHUP: Order.STOP,
    signal.SIGQUIT: Order.QUIT,
    signal.SIGUSR1: Order.DUMP,
}
#: The byte for LOOK; no signal has this number.
_LOOK = 0


class Signals:
    """Catches signals while it is entered. The handlers do nothing: the interpreter writes each number to a socket.

    So no code of ours ever runs in the middle of another's, and the main loop waits for signals as for all else.
    Outside the main thread, where Python delivers none, it only carries the words of other threads.
    """

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._catches = threading.current_thread() is threading.main_thread()
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        if self._catches:
            self._wakeup_before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
            for number in _ORDERS:
                self._before[number] = signal.signal(number, _nothing)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._catches:
            signal.set_wakeup_fd(self._wakeup_before)
        self._reading.close()
        self._writing.close()

    def fileno(self) -> int:
        """The file descriptor that is readable when there are orders."""
        return self._reading.fileno()

    def look(self) -> None:
        """Make the supervisor look at everything; any thread may call it."""
        try:
            self._writing.send(bytes([_LOOK]))
        except OSError:  # it is full of orders, or closed
            pass

    def orders(self) -> list[Order]:
        """Return what was ordered since the last call."""
        try:
            numbers = self._reading.recv(4096)
        except BlockingIOError:
            return []
        return [_ORDERS.get(signal.Signals(number), Order.LOOK) if number else Order.LOOK for number in numbers]


def _nothing(number: int, frame: FrameType | None) -> None:
    pass


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, if it is still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
