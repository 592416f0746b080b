"""The children of a worker, as their supervisor sees them: started, watched, ended and replaced."""

from __future__ import annotations

import logging
import secrets
import signal
import string
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

from ..broker.records import Lease
from .application import Connect
from .board import Board, Held
from .entry import serve
from .exceptions import Crash, TaskTimeout, WorkerLost
from .settings import Settings
from .shutdown import send

logger = logging.getLogger("django_taskq.worker")

Context = ForkServerContext | SpawnContext

_ALPHABET = string.ascii_lowercase + string.digits
#: Processes are started one after the other.
_starting = threading.Lock()


def new_child_id(worker: str) -> str:
    return f"{worker}.{''.join(secrets.choice(_ALPHABET) for _ in range(8))}"


def end_fork_server() -> None:
    """Kill the process that starts the children: while a project is being loaded it doesn't notice our end."""
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:
        send(pid, signal.SIGKILL)


class ChildProcess:
    """One child process and its board."""

    def __init__(self, context: Context, settings: Settings, connect: Connect, adopted: Sequence[Lease] = ()) -> None:
        if adopted:
            settings = replace(settings, threads=1, coroutines=1, burst=False, max_tasks=None, max_memory=None)
        self.id = new_child_id(settings.name)
        self.board = Board(settings.slots)
        #: Whether it runs what it was given and claims nothing.
        self.is_alone = bool(adopted)
        for slot, lease in enumerate(adopted):
            self.board.occupy(slot, lease)
        #: What its running tasks' attempts ended of, should it be gone; None gives them back.
        self.cause: type[Crash | TaskTimeout] | None = WorkerLost
        #: The runs for whose time limit it was killed.
        self.culprits: Sequence[Held] = ()
        #: When it was told to stop.
        self.told_at: float | None = None
        #: When it is killed, should it still be there.
        self.deadline: float | None = None
        self.failure: BaseException | None = None
        self._asked_at = time.monotonic()
        self._was_ready = False
        self._loops = 0
        self._seen_at = 0.0
        self._stood_still = 0.0
        self._started = threading.Event()
        orders, self._orders = context.Pipe(duplex=False)
        arguments = (self.id, settings, connect, self.board, orders, tuple(adopted))
        # The two contexts have process classes of their own without a common type that says so.
        self._process: Any = context.Process(target=serve, args=arguments, name=self.id)
        self._given = orders

    def start(self, then: Callable[[], None]) -> None:
        """Start the process in a thread, for it may have to wait until the fork server has loaded Django."""
        threading.Thread(target=self._start, args=(then,), name=f"start {self.id}", daemon=True).start()

    def _start(self, then: Callable[[], None]) -> None:
        try:
            with _starting:
                self._process.start()
            self._given.close()
        except Exception as error:
            if self.told_at is None:
                logger.exception("Child %s could not be started", self.id)
            self.failure = error
        self._started.set()
        if self.told_at is not None:  # while it was being started
            self.end(None)
        then()

    @property
    def is_started(self) -> bool:
        return self._started.is_set() and self.failure is None

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or is as good as that: told to before it was started, it claims nothing."""
        if not self._started.is_set():
            return self.told_at is not None and not self.is_alone
        if self.failure is not None or wait([self._process.sentinel], timeout=0):
            return True
        # A process that a task forked may keep the sentinel from becoming readable.
        return self._process.exitcode is not None

    @property
    def sentinels(self) -> list[int]:
        """What becomes readable when the process ends."""
        return [self._process.sentinel] if self.is_started else []

    @property
    def pid(self) -> int | None:
        return self._process.pid if self.is_started else None

    @property
    def is_ready(self) -> bool:
        return bool(self.board.ready)

    @property
    def is_leaving(self) -> bool:
        """Whether it claims no more."""
        return self.told_at is not None or bool(self.board.retiring)

    @property
    def age(self) -> float:
        """Seconds since it was asked for."""
        return time.monotonic() - self._asked_at

    def became_ready(self) -> bool:
        """Tell, once, that it is ready."""
        if self._was_ready:
            return False
        self._was_ready, self._seen_at = True, time.monotonic()
        return True

    def stood_still_for(self) -> float:
        """Return for how many seconds its main loop didn't move; call it every second or so.

        Time in which nobody looked doesn't count: the supervisor may have been frozen together with it.
        """
        now, loops = time.monotonic(), self.board.loops
        self._stood_still = 0.0 if loops != self._loops else self._stood_still + min(now - self._seen_at, 1.0)
        self._seen_at, self._loops = now, loops
        return self._stood_still

    def stop(self, grace: float | None = None) -> None:
        """Tell it to claim no more and to end; kill it if it is there after the grace."""
        if grace is not None:
            self.deadline = time.monotonic() + grace
        if self.told_at is not None:
            return
        self.told_at = time.monotonic()
        if not self.is_ready:
            # It holds nothing, and may be long in getting ready.
            self.end(None)
            return
        try:
            self._orders.send_bytes(b"stop")
        except OSError:  # it is gone
            pass

    def end(self, cause: type[Crash | TaskTimeout] | None, culprits: Sequence[Held] = ()) -> None:
        """Kill it; its leases are dealt with when it is gone."""
        self.told_at = self.told_at or time.monotonic()
        self.cause, self.culprits = cause, culprits
        if (pid := self.pid) is not None and not self.is_gone:
            send(pid, signal.SIGKILL)

    def dump(self) -> None:
        """Make it show what each of its threads does."""
        if self.pid is not None and self.is_ready and not self.is_gone:
            send(self.pid, signal.SIGUSR1)

    def close(self) -> str:
        """Let go of a process that is gone, and return how it ended."""
        self._orders.close()
        if self.failure is not None:
            return f"could not be started: {self.failure!r}"
        if not self._started.is_set():
            return "was never started"
        if self._process.exitcode in (None, 255) and self.pid is not None:
            # It may be there all the same: a task closed its files, or the fork server itself is gone.
            send(self.pid, signal.SIGKILL)
        self._process.join(timeout=1)
        code = self._process.exitcode
        if code is None:  # the kernel is still at it; none of its code runs any more
            return "was killed, for it had closed its files"
        self._process.close()
        return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
