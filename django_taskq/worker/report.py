"""What a worker tells about itself: its presence, its health file, and a dump on request."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from .board import BEGUN
from .duty import Duty
from .nursery import Nursery
from .settings import Settings

logger = logging.getLogger("django_taskq.worker")

#: Seconds between two writes of the health file.
HEALTH_INTERVAL = 1.0


class Report:
    """Describes a worker, from what its main loop and its boards know."""

    def __init__(self, settings: Settings, nursery: Nursery, duties: Sequence[Duty]) -> None:
        self._settings = settings
        self._nursery = nursery
        self._duties = duties
        self._started_at = round(time.time() * 1000)
        self._writes_at = 0.0
        #: What the worker is at: starting, serving, stopping.
        self.phase = "starting"

    def presence(self) -> dict[str, str]:
        """Return the fields of the heartbeat."""
        children = [*self._nursery.children]
        return {
            "host": platform.node(),
            "pid": str(os.getpid()),
            "started_at": str(self._started_at),
            "queues": ",".join(self._settings.served),
            "excluded": "" if self._settings.queues else ",".join(sorted(self._settings.excluded)),
            "phase": self.phase,
            "children": str(len(children)),
            "ready": str(sum(child.is_ready for child in children)),
            "running": str(sum(len(board.leases()) for board in self._nursery.boards)),
            "failures": str(sum(duty.failures for duty in self._duties)),
        }

    def health(self) -> dict[str, object]:
        """Return what a probe may want to know; `ready` says whether all children serve and no duty fails."""
        failing = [duty.name for duty in self._duties if duty.is_away or duty.is_failing]
        return {
            "ready": self.phase == "serving" and self._nursery.is_ready and not failing,
            "phase": self.phase,
            "children": {child.id: child.is_ready for child in self._nursery.children},
            "failing": failing,
            "failures": {duty.name: duty.failures for duty in self._duties},
        }

    def write_health(self) -> None:
        """Write the health file about once a second: its age says whether the main loop lives, its text the rest."""
        path, now = self._settings.health_file, time.monotonic()
        if path is None or now < self._writes_at:
            return
        self._writes_at = now + HEALTH_INTERVAL
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            draft.write_text(json.dumps(self.health(), indent=2) + "\n")
            draft.replace(path)
        except OSError as error:
            logger.error("The health file can't be written: %s", error)
            self._writes_at = now + 60 * HEALTH_INTERVAL

    def remove_health(self) -> None:
        if self._settings.health_file is not None:
            with suppress(OSError):
                self._settings.health_file.unlink()

    def dump(self) -> None:
        """Show the stacks of all threads and processes, and every lease."""
        now = time.monotonic()
        for child in self._nursery.children:
            logger.warning("Child %s, pid %s, has %d leases", child.id, child.pid, len(child.board.leases()))
        for board in self._nursery.boards:
            for held in board.leases():
                begun = f"has run for {now - held.began:.1f} s" if held.state == BEGUN else "isn't running"
                logger.warning("Lease %s of queue %s, attempt %d, %s", held.id, held.queue, held.attempt, begun)
        with suppress(OSError, ValueError, AttributeError):  # stderr may be closed, or no file
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        for child in self._nursery.children:
            child.dump()
