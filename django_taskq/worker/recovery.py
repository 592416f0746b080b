"""What becomes of the leases of a child that is gone.

One task may have been the end of its process, and of the others'. So a lone suspect has failed; several keep their
leases and are run again at once, each alone in a process of its own, where the culprit shows itself. What hadn't
begun goes back.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from ..broker.exceptions import BrokerUnavailable, ConfigurationError, OutOfMemory
from ..broker.inspector import Inspector
from ..broker.records import Claim, Lease, State
from ..broker.settlements import Holding
from .application import Application
from .board import BEGUN, CLAIMED, ENDED, Board, Held
from .children import ChildProcess
from .endings import Ending
from .exceptions import Crash, TaskTimeout, WorkerLost
from .outcomes import Failed, Outcome, Released, Succeeded, after_crash, settle
from .queues import Queues
from .rows import Rows
from .settings import Settings

logger = logging.getLogger("django_taskq.worker")


class Verdict(Enum):
    GIVE_BACK = "it didn't run, or the process was ended for another's sake"
    HAS_FAILED = "it ended the process, or nobody else can have"
    RUN_ALONE = "it may have ended the process"


def judge(
    leases: Sequence[Held], cause: type[Crash | TaskTimeout] | None, culprits: Sequence[Held], alone: bool
) -> Iterator[tuple[Held, Verdict]]:
    """Say what becomes of each lease that a dead child held.

    `cause` is None when we ended it for reasons of our own. `culprits` are the runs for whose time limit we did.
    `alone` says that it was started for a single suspect.
    """
    running = [held for held in leases if held.state == BEGUN]
    # A task that had ended already is a suspect only when nothing was running any more.
    suspects = running or [held for held in leases if held.state != CLAIMED]
    beyond_limit = {(culprit.id, culprit.token) for culprit in culprits}
    for held in leases:
        if beyond_limit:
            yield held, Verdict.HAS_FAILED if (held.id, held.token) in beyond_limit else Verdict.GIVE_BACK
        elif cause is None or held.state == CLAIMED:
            yield held, Verdict.GIVE_BACK
        elif alone or suspects == [held]:
            yield held, Verdict.HAS_FAILED
        else:
            yield held, Verdict.RUN_ALONE


def _tried(what: str, step: Callable[[], object]) -> object:
    """Do a step and return what it does; None when it failed for a reason of its own, which mustn't hold up others.

    The lease that it was about is to be left then: it lapses, and any worker finds it.
    """
    try:
        return step()
    except (BrokerUnavailable, ConfigurationError, OutOfMemory):
        raise  # the others would meet the same
    except Exception:
        logger.exception("%s can't be dealt with; what it holds lapses", what)
        return None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A lease that is to be run alone; until that begins it stands on the board of the dead child."""

    lease: Lease
    held: Held
    child: ChildProcess


class Case:
    """A dead child, and what is still to be done about its leases. It is judged once."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self.leases = child.board.leases()
        self.asked = False
        verdicts = judge(self.leases, child.cause, child.culprits, child.is_alone)
        # What may have to wait for a database comes last.
        self.verdicts = deque(sorted(verdicts, key=lambda pair: pair[1] is Verdict.HAS_FAILED))

    @property
    def is_closed(self) -> bool:
        return self.asked and not self.verdicts and self.child.board.is_empty


class Recovery:
    """Works through the boards of dead children. Where Redis doesn't answer it goes on later, at the same place."""

    def __init__(self, application: Application, settings: Settings, queues: Queues) -> None:
        self._application = application
        self._broker = application.broker
        self._inspector = Inspector(self._broker)
        self._lease = settings.lease
        self._lease_ms = settings.lease_ms
        self._queues = queues
        self._rows = Rows(application.rows)
        self._cases: list[Case] = []
        self._suspects: deque[Suspect] = deque()
        #: Give suspects back instead of running them alone.
        self.gives_up = False

    @property
    def boards(self) -> list[Board]:
        """The boards of dead children on which there may be leases."""
        return [case.child.board for case in self._cases]

    @property
    def is_finished(self) -> bool:
        return not self._cases

    def add(self, child: ChildProcess) -> None:
        """Take over a child that is gone."""
        self._cases.append(Case(child))

    def next_suspect(self) -> Suspect | None:
        """Return a suspect to run alone; when it stands on its own board, the caller clears the other."""
        try:
            return self._suspects.popleft()
        except IndexError:
            return None

    def work(self) -> float:
        """Deal with all cases; asks to be called again soon while one is open."""
        while self.gives_up and (suspect := self.next_suspect()):
            _tried(f"The lease of {suspect.held.id}", partial(self._settle, suspect.held, Released()))
            suspect.child.board.clear(suspect.held.slot)
        for case in [*self._cases]:
            self._work_on(case)
            if case.is_closed:
                self._cases.remove(case)
        self._rows.correct()
        return 0.1 if self._cases else 3600.0

    def _work_on(self, case: Case) -> None:
        if not case.asked:
            _tried(f"The last claim of {case.child.id}", partial(self._ask_about_claim, case))
            case.asked = True
        for _ in range(len(case.verdicts)):
            held, verdict = case.verdicts[0]
            done = _tried(f"The lease of {held.id}", partial(self._carry_out, case.child, held, verdict))
            if done is None:
                case.child.board.clear(held.slot)
            if done is False:
                case.verdicts.rotate(-1)
            else:
                case.verdicts.popleft()

    def _ask_about_claim(self, case: Case) -> None:
        """Send the last claim again: it fences off one that is on its way, and shows what wasn't entered any more."""
        child = case.child
        if nonce := child.board.nonce:
            known = {(held.id, held.token) for held in case.leases}
            claim = Claim(child.id, nonce, 0, self._lease_ms, self._queues.names)
            for lease in self._broker.claim(claim).leases:
                if (lease.id, lease.token) not in known:
                    self._settle(lease, Released())

    def _carry_out(self, child: ChildProcess, held: Held, verdict: Verdict) -> bool:
        """Do what was decided about a lease; False when its row comes first, and can't be read or written now."""
        gives_back = verdict is Verdict.GIVE_BACK or (verdict is Verdict.RUN_ALONE and self.gives_up)
        if gives_back and held.state != ENDED:
            self._settle(held, Released())
        elif (lease := self._still_held(held)) is None:
            logger.warning("The lease of %s was lost with its process", held.id)
        else:
            failed = after_crash(lease, child.cause or WorkerLost) if verdict is Verdict.HAS_FAILED else Released()
            ending = self._judge(held, Ending(lease, failed, cancelled=lease.cancel_requested))
            if ending is None:
                return False
            if verdict is Verdict.RUN_ALONE and isinstance(ending.outcome, Released) and not gives_back:
                logger.warning("Running %s alone: it may have ended its process", held.id)
                self._suspects.append(Suspect(lease, held, child))
                return True
            self._end(ending)
        child.board.clear(held.slot)
        return True

    def _still_held(self, held: Held) -> Lease | None:
        """Renew a lease and return it in full; None when it is another's."""
        deadline = time.monotonic() + self._lease
        if self._broker.renew([(held.id, held.queue, held.token)], self._lease_ms) == ["LOST"]:
            return None
        record = self._inspector.record(held.id)
        if record is None or record.state is not State.LEASED or record.token != held.token:
            return None
        return Lease(
            id=held.id,
            queue=held.queue,
            token=held.token,
            attempt=record.attempts,
            releases=record.releases,
            unknown_ms=None,
            task=record.task,
            claimed_at=record.last_attempted_at or 0,
            deadline=deadline,
            cancel_requested=record.cancel_requested,
        )

    def _judge(self, held: Held, ending: Ending) -> Ending | None:
        """Return how a lease is to end, its row written; None while the database doesn't allow it."""
        # Before a run has ended nobody writes a row under its token, but for a transaction that closes its own.
        may_have_one = held.state == ENDED or ending.lease.head.record_alias is not None
        ready, _ = self._rows.judge([ending]) if may_have_one else self._rows.write([ending])
        self._rows.rest()
        return ready[0] if ready else None

    def _end(self, ending: Ending) -> None:
        lease, outcome = ending.lease, ending.outcome
        word = self._settle(lease, outcome)
        self._rows.heed(ending, word)
        if isinstance(outcome, Succeeded):
            logger.warning("Attempt %d of %s has succeeded, as its row says", lease.attempt, lease.id)
        elif isinstance(outcome, Failed):
            logger.warning("Attempt %d of %s has failed: %s", lease.attempt, lease.id, outcome.error.message)
            if word == "DONE" and outcome.delay_ms is None:
                self._application.buried(lease, outcome.error)

    def _settle(self, lease: Holding, outcome: Outcome) -> str:
        return settle(self._broker, lease, outcome)
