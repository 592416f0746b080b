"""The thread of a child that writes rows, so that a database that doesn't answer holds up only what needs one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from ..broker.exceptions import TaskqError
from .application import RowStore
from .endings import Ending
from .outage import Outage
from .pool import Inbox
from .rows import Rows, is_fenced
from .run import Run

logger = logging.getLogger("django_taskq.worker")

#: Seconds to wait after an unexpected failure.
PAUSE_AFTER_FAILURE = 1.0
#: Seconds without anything to write after which a connection needn't be held.
IDLE = 1.0


@dataclass(frozen=True, slots=True)
class Written:
    """A message: so many things less to do; these runs can be settled."""

    count: int
    runs: Sequence[Run] = ()


class RowWriter:
    """Takes ended runs, and puts them back into the inbox when their rows are written. Only the main loop calls it."""

    def __init__(self, store: RowStore, inbox: Inbox, who: str) -> None:
        #: Whether another child claimed the leases: the one that their records name.
        self.runs_adopted = False
        #: What was handed over and isn't back.
        self.pending = 0
        #: Whether the database takes no rows. Claiming more would only make more that waits for them.
        self.is_away = False
        self._inbox = inbox
        self._rows = Rows(store)
        #: What was taken and isn't handed over yet.
        self._taken: list[Run] = []
        self._asked: SimpleQueue[list[Run] | Ending] = SimpleQueue()
        self._outage = Outage(logger, who, what="The database")
        self._thread: threading.Thread | None = None

    def take(self, run: Run) -> bool:
        """Take an ended run if it needs a row, which is written when it is handed over; tell whether it does."""
        if not self._rows.keeps(run.lease):
            return False
        child = None if self.runs_adopted else run.child
        run.ending = Ending(run.lease, run.outcome, child, run.cancel_requested)
        if not self._rows.wants(run.ending):
            return False
        self._taken.append(run)
        return True

    def hand_over(self) -> None:
        """Let the rows of what was taken be written, all at once: a change of threads for each costs more than they."""
        if self._taken:
            taken, self._taken = self._taken, []
            self._ask(taken, len(taken))

    def heed(self, run: Run, word: str) -> None:
        """Correct the row of a run if Redis answered that it ended otherwise."""
        if run.ending is not None and self._rows.is_wrong(run.ending, word):
            self._ask(run.ending, 1)

    def _ask(self, what: list[Run] | Ending, count: int) -> None:
        self.pending += count
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="rows", daemon=True)
            self._thread.start()
        self._asked.put(what)

    def _serve(self) -> None:
        waiting: list[Run] = []
        pause: float | None = None
        while True:
            waiting += self._gather(pause)
            try:
                waiting, pause = self._write(waiting)
            except TaskqError as error:
                pause = self._outage.failed(error)  # Redis couldn't be asked what belongs into a row
            except Exception:
                logger.exception("Writing rows failed")
                pause = PAUSE_AFTER_FAILURE

    def _gather(self, seconds: float | None) -> list[Run]:
        """Wait for something to do, and return the runs; None waits for ever."""
        runs: list[Run] = []
        try:
            asked = self._next() if seconds is None else self._asked.get(timeout=seconds)
            while True:
                if isinstance(asked, Ending):
                    self._rows.note_wrong(asked)
                else:
                    runs += asked
                asked = self._asked.get(False)
        except Empty:
            return runs

    def _next(self) -> list[Run] | Ending:
        """Wait for something to do, without a database connection when that takes long."""
        try:
            return self._asked.get(timeout=IDLE)
        except Empty:
            self._rows.rest()
            return self._asked.get()

    def _write(self, waiting: list[Run]) -> tuple[list[Run], float | None]:
        """Write what can be written; return what is left, and the seconds until the next try."""
        if corrected := self._rows.correct():
            self._inbox.put(Written(corrected))
        runs = {run.ending.key: run for run in waiting if run.ending is not None}
        ready, _ = self._rows.write([run.ending for run in waiting if run.ending is not None])
        written = []
        for ending in ready:
            run = runs.pop(ending.key)
            run.ending, run.outcome = ending, ending.outcome
            written.append(run)
        if written:
            self._inbox.put(Written(len(written), written))
        error = self._rows.error
        if (error is not None or self.is_away) and all(is_fenced(run.lease) for run in runs.values()):
            # What has had a row from the start may need another database than all else.
            self._rows.probe()
        self.is_away = self._rows.error is not None
        error = error or self._rows.error
        if error is not None:
            return [*runs.values()], self._outage.failed(error)
        self._outage.over()
        return [*runs.values()], PAUSE_AFTER_FAILURE if self._rows.has_wrong else None
