"""The process that `runtaskworker` is. It runs no tasks, so that it can answer for those who do."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from collections.abc import Sequence
from enum import Enum, IntEnum
from multiprocessing.connection import wait
from typing import cast

from ..broker.exceptions import ConfigurationError
from .application import Connect
from .children import Context, end_fork_server
from .duty import Duty
from .greeting import Greeting
from .maintenance import Presence, Reaper
from .nursery import CannotStart, Nursery
from .queues import Queues
from .recovery import Recovery
from .renewal import Renewal
from .report import Report
from .settings import Settings
from .shutdown import Order, Signals

logger = logging.getLogger("django_taskq.worker")

#: Seconds after which the main loop looks at everything, and the same while it waits for something to end.
TICK, SHORT_TICK = 0.5, 0.05
#: Seconds that giving back leases may take after the children were killed.
RELEASE_PATIENCE = 5.0
#: Seconds that Redis may take to answer when nothing else keeps the worker, and to hear its last words.
ANSWER_PATIENCE = FAREWELL_PATIENCE = 0.25


class ExitCode(IntEnum):
    """What the process says when it ends. Never 3: Django's reloader starts such a process again."""

    DRAINED = 0
    ERROR = 1
    CONFIGURATION = 2
    UNREACHABLE = 4
    FORCED = 5


class Phase(Enum):
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"  # claiming no more, until all that runs has ended or the grace is over
    RELEASING = "releasing"  # the children are killed, and what they held goes back


class Supervisor:
    """Starts and watches the children, renews their leases, and ends them in two stages.

    `run` is its main loop. What may wait for Redis is a duty in a thread of its own, so that a signal is always
    answered at once.
    """

    def __init__(
        self, settings: Settings, connect: Connect, method: str = "forkserver", preload: Sequence[str] = ()
    ) -> None:
        self._settings = settings
        self._signals = Signals()
        application = connect()
        self._broker = broker = application.broker
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload([*preload])
        self._recovery = Recovery(application, settings, Queues(settings, broker))
        self._nursery = Nursery(cast(Context, context), settings, connect, self._recovery, self._signals.look)
        renewal = Renewal(broker.hastier(settings.patience), settings.lease, lambda: self._nursery.boards)
        presence = Presence(broker, settings.name, settings.lease, lambda: self._report.presence())
        self._telling = Duty("presence", presence.work)
        self._recovering = Duty("recovery", self._recovery.work)
        self._duties = [
            Duty("renewal", renewal.work, longest_pause=settings.lease / 6),
            self._telling,
            Duty("reaper", Reaper(application, settings.lease).work),
            self._recovering,
            *(Duty(name, work) for name, work in application.duties.items()),
        ]
        self._report = Report(settings, self._nursery, self._duties)
        self._greeting = Greeting(broker, settings.fail_fast, self._signals.look)
        self._leave = presence.leave
        self._phase = Phase.STARTING
        self._exit: ExitCode | None = None
        #: When the phase is over, whatever remains.
        self._deadline = float("inf")
        self._idle: tuple[int, ...] = ()
        self._empty_since = float("inf")
        self._reloads = False

    def run(self) -> ExitCode:
        """Work until told to stop, or until the queues are empty with `burst`."""
        with self._signals:
            self._greeting.start()
            try:
                while self._exit is None:
                    self._wait()
                    for order in self._signals.orders():
                        self._obey(order)
                    self._look()
            except CannotStart as error:
                logger.critical("%s; giving up", error)
                self._exit = ExitCode.ERROR
            finally:
                self._finish()
        logger.info("Worker %s ended: %s", self._settings.name, self._exit.name.lower())
        return self._exit

    def reload(self) -> None:
        """Replace the children, for the code has changed; any thread may call it."""
        self._reloads = True
        self._signals.look()

    def _wait(self) -> None:
        """Wait for a signal, the end of a child, or the next look."""
        is_short = self._settings.burst or self._phase in (Phase.DRAINING, Phase.RELEASING)
        sentinels = [sentinel for child in self._nursery.children for sentinel in child.sentinels]
        wait([self._signals.fileno(), *sentinels], SHORT_TICK if is_short else TICK)

    def _obey(self, order: Order) -> None:
        match order:
            case Order.STOP if self._phase in (Phase.STARTING, Phase.SERVING):
                self._drain()
            case Order.STOP:
                self._force("A second signal came")
            case Order.QUIT:
                logger.warning("Quitting at once")
                self._exit = ExitCode.FORCED
            case Order.DUMP:
                self._report.dump()

    def _look(self) -> None:
        """Look at everything, and do what is due."""
        if self._nursery.collect():
            self._recovering.poke()
        if self._nursery.watch():
            self._telling.poke()
        match self._phase:
            case Phase.STARTING:
                self._start()
            case Phase.SERVING:
                self._serve()
            case Phase.DRAINING:
                self._see_whether_drained()
            case Phase.RELEASING if self._is_empty or time.monotonic() > self._deadline:
                self._exit = ExitCode.FORCED
        if self._phase is not Phase.STARTING:
            for duty in self._duties:
                duty.ensure_alive()
        self._report.write_health()

    @property
    def _is_empty(self) -> bool:
        return not self._nursery.children and self._recovery.is_finished

    def _start(self) -> None:
        """Start serving when Redis has answered."""
        if not self._greeting.is_over:
            return
        if (error := self._greeting.error) is not None:
            logger.critical("%s", error)
            is_wrong = isinstance(error, ConfigurationError)
            self._exit = ExitCode.CONFIGURATION if is_wrong else ExitCode.UNREACHABLE
            return
        self._enter(Phase.SERVING)
        self._serve()

    def _serve(self) -> None:
        if self._reloads:
            self._reloads = False
            self._nursery.replace_all()
        if self._settings.burst and self._has_nothing_left():
            self._drain()
            return
        self._nursery.fill()
        self._nursery.run_suspects()

    def _has_nothing_left(self) -> bool:
        """Tell whether all children found nothing to do and have done nothing since the last look."""
        idle = tuple(child.board.idle for child in self._nursery.children)
        before, self._idle = self._idle, idle
        served = len(idle) >= self._settings.processes and all(idle) and idle == before
        return served and self._recovery.is_finished

    def _drain(self) -> None:
        """Claim no more; what runs has the grace to end in."""
        self._enter(Phase.DRAINING)
        self._deadline = time.monotonic() + self._settings.shutdown_timeout
        for child in self._nursery.children:
            child.stop()
        logger.info("Worker %s is stopping: it claims no more", self._settings.name)

    def _see_whether_drained(self) -> None:
        self._nursery.run_suspects()
        if self._is_empty or self._has_empty_hands():
            self._exit = ExitCode.DRAINED
        elif time.monotonic() > self._deadline:
            self._force("The grace is over")

    def _has_empty_hands(self) -> bool:
        """Tell whether only an answer is missing about leases that nobody here ever saw.

        Redis is away then. Those that a lost claim took lapse, and another worker reaps them.
        """
        if self._nursery.children or not all(board.is_empty for board in self._nursery.boards):
            self._empty_since = float("inf")
        else:
            self._empty_since = min(self._empty_since, time.monotonic())
        patience = 0 if self._recovering.is_away else ANSWER_PATIENCE
        return time.monotonic() > self._empty_since + patience

    def _force(self, why: str) -> None:
        """Kill what runs; its leases go back when it is gone, never before."""
        if self._phase is Phase.RELEASING:
            return
        logger.warning("%s: ending what runs and giving it back", why)
        self._enter(Phase.RELEASING)
        self._deadline = time.monotonic() + RELEASE_PATIENCE
        self._recovery.gives_up = True
        for child in self._nursery.children:
            child.end(None)
        self._recovering.poke()

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._report.phase = phase.value

    def _finish(self) -> None:
        for child in self._nursery.children:
            child.end(None)
        end_fork_server()
        for duty in self._duties:
            duty.stop()
        if self._phase is not Phase.STARTING and not self._recovering.is_away:
            farewell = threading.Thread(target=self._leave, name="farewell", daemon=True)
            farewell.start()
            farewell.join(FAREWELL_PATIENCE)
        self._report.remove_health()
