"""The first word with Redis, before anything is started."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ..broker.broker import Broker
from ..broker.exceptions import ConfigurationError, TaskqError
from .outage import Outage

logger = logging.getLogger("django_taskq.worker")


class Greeting:
    """Waits, in a thread, until Redis answers; or, with `fail_fast`, asks once."""

    def __init__(self, broker: Broker, fail_fast: bool, then: Callable[[], None]) -> None:
        self._broker = broker
        self._fail_fast = fail_fast
        self._then = then
        self._outage = Outage(logger, "Starting")
        #: Whether it is over: Redis answered, or `error` says why nothing can come of it.
        self.is_over = False
        self.error: TaskqError | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="greeting", daemon=True).start()

    def _run(self) -> None:
        while not self._is_answered():
            pass
        self.is_over = True
        self._then()

    def _is_answered(self) -> bool:
        try:
            self._broker.ping()
            for warning in self._broker.server_warnings():
                logger.warning("%s", warning)
        except ConfigurationError as error:
            self.error = error
            return True
        except TaskqError as error:
            if self._fail_fast:
                self.error = error
                return True
            time.sleep(self._outage.failed(error))
            return False
        except Exception:
            # Whoever waits for this thread would wait for ever. What is wrong for good, the duties will say again.
            logger.exception("Greeting Redis failed; starting all the same")
        self._outage.over()
        return True
