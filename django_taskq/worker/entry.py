"""Where a child process starts."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait

from ..broker.records import Lease
from .application import Connect
from .board import Board
from .pool import Inbox
from .process import Child, Stop
from .settings import Settings

logger = logging.getLogger("django_taskq.worker")

#: What a terminal or a service manager sends to the whole group; a child obeys its supervisor alone.
GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(
    child: str, settings: Settings, connect: Connect, board: Board, orders: Connection, adopted: Sequence[Lease] = ()
) -> None:
    """Be a child: the target of its process."""
    ignore_group_signals()
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_through, after_in_child=_restore_signals)
    show_stacks_on_request()
    die_with_supervisor()
    inbox = Inbox()
    threading.Thread(target=_obey, args=(orders, inbox), name="orders", daemon=True).start()
    application = connect()
    # What the project has loaded stays: the collector needn't look through it in the midst of tasks, nor write to pages
    # that children share.
    gc.freeze()
    Child(child, settings, application, board, inbox).run(adopted)


def ignore_group_signals() -> None:
    """Do nothing on them. Not SIG_IGN, which programs that a task starts would inherit."""
    for number in GROUP_SIGNALS:
        signal.signal(number, _nothing)


def _nothing(*_: object) -> None:
    pass


def _hold_signals() -> None:
    """Let none come between the fork and `_restore_signals`: it would do nothing."""
    signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)


def _let_signals_through() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)


def _restore_signals() -> None:
    """Let processes that a task forks, such as those of `multiprocessing`, be ended by a signal."""
    for number in GROUP_SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _let_signals_through()


def show_stacks_on_request() -> None:
    """Write the stacks of all threads to stderr on USR1, even while a task holds the interpreter."""
    try:
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    except (AttributeError, OSError, RuntimeError, ValueError):  # there is no stderr
        signal.signal(signal.SIGUSR1, _nothing)


def die_with_supervisor() -> None:
    """Let the kernel kill this process when its supervisor ends, even while a task holds the interpreter.

    The kernel signals who asked for it that the pipe from the parent was closed; a file descriptor of the
    parent that no other process has. (PR_SET_PDEATHSIG would watch the forkserver, which outlives it.)
    Linux only; elsewhere `_obey` sees the end, between two steps of the interpreter.
    """
    parent = multiprocessing.parent_process()
    if parent is None or not sys.platform.startswith("linux"):
        return
    lifeline = parent.sentinel
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | fcntl.FASYNC)
    if wait([lifeline], timeout=0):  # it was closed before that
        os._exit(1)


def _obey(orders: Connection, inbox: Inbox) -> None:
    """Pass on the supervisor's order to stop; end at once when it is gone, for nobody renews the leases."""
    try:
        while True:
            orders.recv_bytes()
            inbox.put(Stop())
    except (EOFError, OSError):
        os._exit(1)
