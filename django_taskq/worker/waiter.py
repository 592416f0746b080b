"""Wait for the wake marker in a thread that then runs what it woke for, so that the main loop never blocks on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
    """Waits when asked to, once at a time and in a thread that is `lent` to it, and tells the child."""

    def __init__(
        self, broker: Broker, lend: Callable[[Callable[[], None]], None], tell: Callable[[Woken], None]
    ) -> None:
        self._broker = broker
        self._lend = lend
        self._tell = tell
        self._outage = Outage(logger, "Waiting for work")
        #: Whether a wait is under way.
        self.waits = False

    def ask(self, queues: Sequence[str]) -> None:
        """Wait once for work in any of these queues."""
        self.waits = True
        self._lend(partial(self._run, tuple(queues)))

    def _run(self, queues: tuple[str, ...]) -> None:
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
