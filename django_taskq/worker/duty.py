"""A small piece of work that a worker does again and again, whatever happens to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..broker.exceptions import TaskqError
from .outage import LONGEST_PAUSE, Outage

logger = logging.getLogger("django_taskq.worker")

#: Seconds to wait after an unexpected failure.
PAUSE_AFTER_FAILURE = 1.0


def fault(duty: str) -> None:
    """Do nothing, before each round of a duty; tests put something here that raises."""


class Duty:
    """Runs `work` in a thread of its own; it returns the seconds until it wants to be called again.

    What `work` raises is logged and `work` is called again. Should the thread end all the same, `ensure_alive`
    starts another. `failures` counts both.
    """

    def __init__(self, name: str, work: Callable[[], float], longest_pause: float = LONGEST_PAUSE) -> None:
        self.name = name
        self.failures = 0
        #: Whether the last round failed, for another reason than that Redis was away.
        self.is_failing = False
        self._work = work
        self._outage = Outage(logger, name.capitalize(), longest_pause)
        self._poked = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def ensure_alive(self) -> None:
        """Start the thread when there is none."""
        if self._stopped or (self._thread is not None and self._thread.is_alive()):
            return
        if self._thread is not None:
            self.failures += 1
            logger.error("The thread of duty %r ended; starting it again", self.name)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def is_away(self) -> bool:
        """Whether Redis didn't answer it last time."""
        return self._outage.lasts

    def poke(self) -> None:
        """Do it now."""
        self._poked.set()

    def stop(self) -> None:
        """Do it no more. What is under way isn't waited for."""
        self._stopped = True
        self._poked.set()

    def _run(self) -> None:
        while not self._stopped:
            self._poked.clear()
            self._poked.wait(self._round())

    def _round(self) -> float:
        """Do it once, and return the seconds to wait."""
        try:
            fault(self.name)
            pause = self._work()
        except TaskqError as error:
            return self._outage.failed(error)
        except Exception:
            self.failures += 1
            self.is_failing = True
            logger.exception("Duty %r failed; it goes on", self.name)
            return PAUSE_AFTER_FAILURE
        self.is_failing = False
        self._outage.over()
        return pause
