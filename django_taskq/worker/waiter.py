"""The thread that waits for the wake marker, so that the main loop of a child never blocks on it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from ..broker.broker import Broker
from ..broker.exceptions import TaskqError
from .outage import Outage

logger = logging.getLogger("django_taskq.worker")

#: Seconds that one wait lasts.
WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Woken:
    """A wait is over: a marker of `queue` was popped, or, when that is None, it is time to look anyway."""

    queue: str | None


class Waiter:
    """Waits when asked to, once at a time, and tells the child."""

    def __init__(self, broker: Broker, tell: Callable[[Woken], None]) -> None:
        self._broker = broker
        self._tell = tell
        self._asked: SimpleQueue[tuple[str, ...]] = SimpleQueue()
        self._outage = Outage(logger, "Waiting for work")
        self._thread: threading.Thread | None = None
        #: Whether a wait is under way.
        self.waits = False

    def ask(self, queues: Sequence[str]) -> None:
        """Wait once for work in any of these queues."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="waiter", daemon=True)
            self._thread.start()
        self.waits = True
        self._asked.put(tuple(queues))

    def _run(self) -> None:
        while True:
            queues = self._asked.get()
            self._tell(Woken(self._wait(queues)))

    def _wait(self, queues: tuple[str, ...]) -> str | None:
        """Wait for a marker; whatever goes wrong, the child looks for work and asks again."""
        try:
            queue = self._broker.wait(queues, WAIT_SECONDS)
            self._outage.over()
            return queue
        except TaskqError as error:
            time.sleep(self._outage.failed(error))
        except Exception:
            logger.exception("Waiting for work failed")
            time.sleep(1)
        return None
