"""The one object through which the worker reaches Django, and what the worker hands to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from ..broker.broker import Broker
from ..broker.records import AttemptError, Lease
from .endings import Ending, Recorded
from .outcomes import Outcome


class Control(Protocol):
    """What is known about a lease while its task runs."""

    @property
    def child(self) -> str:
        """The id of the process that runs it."""

    @property
    def lease_lost(self) -> bool:
        """Whether another worker may have it by now."""

    @property
    def cancel_requested(self) -> bool:
        """Whether someone asked for the run to end."""

    def limit(self) -> AbstractContextManager[object]:
        """Enforce the time limit on the body of a function: raise `TaskTimeout` in this thread."""

    def alimit(self) -> AbstractAsyncContextManager[object]:
        """Enforce the time limit on the body of a coroutine function: raise `TaskTimeout` in it."""


class RowStore(Protocol):
    """Where what has ended has its row.

    A record whose head names a database has had one there since it was enqueued, and that row has the last word on how
    it ends.
    """

    def keeps(self, lease: Lease) -> bool:
        """Tell whether a record has a row when it has ended. Never raises."""

    def write(self, endings: Sequence[Ending]) -> Recorded:
        """Write the rows of records that are about to end, under the tokens of their leases."""

    def read(self, endings: Sequence[Ending]) -> Recorded:
        """Ask the rows of leases that nobody answers for whether these ended already."""

    def correct(self, endings: Sequence[Ending]) -> None:
        """Make the rows of endings that Redis contradicted say what it holds, or raise `NotRecorded`."""

    def probe(self) -> None:
        """See whether rows can be written, or raise `NotRecorded`."""

    def rest(self) -> None:
        """Hear that nothing is to be written for a while. Never raises."""


class Application(Protocol):
    """Runs what is leased; made in each child and in the supervisor by a `Connect`."""

    @property
    def broker(self) -> Broker: ...

    @property
    def rows(self) -> RowStore | None:
        """Where ended records have their row; None where none is kept."""

    @property
    def duties(self) -> Mapping[str, Callable[[], float]]:
        """What the supervisor does besides, by name; each returns the seconds until it wants to be called again."""

    def is_coroutine(self, lease: Lease) -> bool:
        """Tell whether the task belongs on the event loop. Never raises; an unknown name doesn't."""

    def perform(self, lease: Lease, control: Control) -> Outcome:
        """Run a function, in a thread. Never raises."""

    def aperform(self, lease: Lease, control: Control) -> Awaitable[Outcome]:
        """Run a coroutine function, in the event loop. Never raises."""

    def buried(self, lease: Lease, error: AttemptError) -> None:
        """Hear that the supervisor made this record a dead letter. Never raises."""


#: Makes the application; pickled into each child.
Connect = Callable[[], Application]
