"""What the rows say of a lease, of records that have had one since they were enqueued: theirs is the last word.

Redis may have lost what they know, and it hears of an end only when they have it. Where effects go to another
database, a second row, the receipt, is kept there. It is closed with the effects, and the row at home after it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from django.db import connections

from . import fence, rows
from .broker.broker import Broker
from .broker.envelope import DEFAULT_RESULT_TTL_MS
from .broker.exceptions import TaskqError, UnreadableRecord
from .broker.records import AttemptError, Lease, Record, State
from .fence import Standing, Status
from .rows import Row
from .upsert import Rule
from .worker.endings import Ending, NotRecorded, Recorded
from .worker.exceptions import Cancelled
from .worker.outage import Outage
from .worker.outcomes import Failed, Outcome, Released, Succeeded
from .writing import tidy, write_finished

logger = logging.getLogger("django_taskq.worker")

#: Milliseconds for which a record goes back whose rows can't be reached: as long as they have been away, within bounds.
SHORTEST_AWAY_MS, LONGEST_AWAY_MS = 5_000, 60_000
#: Times that the start of a run is tried: a connection may have died, or the row be in use.
_TRIES = 3

ENDED = {State.SUCCEEDED, State.DEAD, State.CANCELLED}


class Verdicts:
    """Asks the rows of one backend, and writes them."""

    def __init__(self, backend: str, broker: Broker) -> None:
        self._backend = backend
        self._broker = broker
        self._outages: dict[str, Outage] = {}

    def begin(self, lease: Lease, child: str) -> Outcome | None:
        """Let the rows say that a lease runs its task, each in a transaction of its own; return how it ends instead."""
        for alias in _aliases(lease):
            try:
                standing = self._start(alias, lease, child)
            except Exception as error:  # whatever it is, it isn't the task's
                _tidy(alias)
                return self._away(alias, error)
            if alias in self._outages:
                self._outages[alias].over()
            if standing is not None:
                return self._outcome(lease, standing, alias)
        return None

    def read(self, endings: Sequence[Ending]) -> Recorded:
        """Return leases that nobody answers for as they end, where their rows say so."""
        said: dict[str, Mapping[str, Standing]] = {}
        errors: dict[str, Exception] = {}
        for alias, ids in _by_alias(endings).items():
            try:
                said[alias] = fence.read(alias, ids)
            except Exception as error:
                errors[alias] = error
            _tidy(alias)
        told, failures = [], {}
        for ending in endings:
            aliases = _aliases(ending.lease)
            if failed := errors.keys() & {*aliases}:
                failures[ending.lease.id] = errors[failed.pop()]
            else:
                told.append(self._judged(ending, [(alias, said[alias].get(ending.lease.id)) for alias in aliases]))
        return _recorded(told, failures)

    def close(self, endings: Sequence[Ending], known: Mapping[str, Record]) -> Recorded:
        """Write endings into their rows, a receipt first; what a row says otherwise replaces what was to be said."""
        told = {ending.key: ending for ending in endings}
        failures: dict[str, BaseException] = {}
        for place in (_receipt, _home):
            groups: dict[str, list[Ending]] = defaultdict(list)
            for ending in told.values():
                if ending.state is not None and (alias := place(ending.lease)):
                    groups[alias].append(ending)
            for alias, group in groups.items():
                closed, failed = self._close(alias, group, known)
                failures |= failed
                told = {key: ending for key, ending in told.items() if ending.lease.id not in failed}
                told |= {ending.key: ending for ending in closed}
        return _recorded(told.values(), failures)

    def correct(self, ending: Ending, record: Record) -> None:
        """Make the rows of an ending that Redis refused say what it holds, or raise `NotRecorded`."""
        for alias in _aliases(ending.lease):
            try:
                if record.state in ENDED:
                    fence.replace(alias, rows.from_record(record, self._backend))
                elif ending.state in (State.DEAD, State.CANCELLED):
                    fence.reopen(alias, record.id, ending.lease.token, ending.state.value)
            except Exception as error:
                raise NotRecorded([record.id], error) from error
            finally:
                _tidy(alias)

    def _start(self, alias: str, lease: Lease, child: str) -> Standing | None:
        """See `fence.start`; tried again where a connection has died, or the row was in use."""
        for _ in range(_TRIES - 1):
            try:
                return fence.start(alias, lease, child, self._backend)
            except Exception:
                _tidy(alias)
        return fence.start(alias, lease, child, self._backend)

    def _away(self, alias: str, error: Exception) -> Released:
        """Let a record go back, its attempt unspent; the longer the outage, the more time passes between two tries."""
        what = f"The database {alias!r}"
        outage = self._outages.setdefault(alias, Outage(logger, "Tasks go back", what=what))
        outage.failed(error)
        return Released(round(min(max(SHORTEST_AWAY_MS, outage.seconds * 1000), LONGEST_AWAY_MS)))

    def _close(
        self, alias: str, endings: Sequence[Ending], known: Mapping[str, Record]
    ) -> tuple[list[Ending], Mapping[str, BaseException]]:
        """Write endings into their rows; return them as these say that they ended, and why others aren't written."""
        made: list[tuple[Ending, Row]] = []
        failures: dict[str, BaseException] = {}
        for ending in endings:
            try:
                made.append((ending, rows.from_ending(ending, self._backend, known.get(ending.lease.id))))
            except Exception as error:  # it must not cost the others their results
                failures[ending.lease.id] = error
        try:
            write_finished([row for _, row in made], alias=alias, rule=Rule.OPEN)
        except NotRecorded as error:
            failures |= dict.fromkeys(error.ids, error.cause)
        except Exception as error:
            return [], dict.fromkeys([ending.lease.id for ending in endings], error)
        written = [(ending, row) for ending, row in made if ending.lease.id not in failures]
        try:
            said = fence.read(alias, [row.id for _, row in written])
        except Exception as error:
            _tidy(alias)
            return [], dict.fromkeys([ending.lease.id for ending in endings], error)
        return [self._closed(ending, row, said.get(row.id), alias) for ending, row in written], failures

    def _closed(self, ending: Ending, row: Row, standing: Standing | None, alias: str) -> Ending:
        if standing is None or standing[:2] == (row.token, row.status):
            return ending
        if standing.status == row.status == Status.DEAD:
            return ending  # Also where it died again, and Redis has forgotten that with its last token.
        return replace(ending, outcome=self._outcome(ending.lease, standing, alias))

    def _judged(self, ending: Ending, standings: Sequence[tuple[str, Standing | None]]) -> Ending:
        # The receipt comes last, and knows first.
        for alias, standing in reversed(standings):
            if standing is not None and standing.status in fence.FINAL:
                return replace(ending, outcome=self._outcome(ending.lease, standing, alias))
        return ending

    def _outcome(self, lease: Lease, standing: Standing, alias: str) -> Outcome:
        """Return how a lease ends whose row says this."""
        if standing.status == Status.SUCCEEDED:
            return success(lease, standing.result, is_recorded=alias == _home(lease))
        if standing.status not in fence.FINAL:
            return Released(floor=standing.token)
        # A record that was asked to end does, with the retry.
        try:
            self._broker.cancel([lease.id])
        except TaskqError as error:
            logger.warning("%s goes back, for it can't be cancelled now: %s", lease.id, error)
            return Released(SHORTEST_AWAY_MS)
        described = AttemptError(f"{Cancelled.__module__}.{Cancelled.__qualname__}", str(Cancelled()))
        return Failed(described, 0, _result_ttl_ms(lease))


def success(lease: Lease, result: str, is_recorded: bool = True) -> Succeeded:
    """Return what is said to Redis of a lease whose row holds this result."""
    return Succeeded(f'{{"result":{result}}}'.encode() if result else b"{}", _result_ttl_ms(lease), is_recorded)


def _result_ttl_ms(lease: Lease) -> int:
    try:
        return lease.envelope.result_ttl_ms
    except UnreadableRecord:
        return DEFAULT_RESULT_TTL_MS


def _home(lease: Lease) -> str:
    """Return the database of the row that was written when the task was enqueued."""
    alias = lease.head.record_alias
    assert alias is not None, "only a record whose head names a database is fenced"
    return alias


def _receipt(lease: Lease) -> str | None:
    """Return the database of the effects, if that is another."""
    try:
        effects = lease.envelope.atomic
    except UnreadableRecord:
        return None
    return effects if effects != _home(lease) else None


def _aliases(lease: Lease) -> list[str]:
    receipt = _receipt(lease)
    return [_home(lease)] if receipt is None else [_home(lease), receipt]


def _by_alias(endings: Sequence[Ending]) -> Mapping[str, list[str]]:
    ids: dict[str, list[str]] = defaultdict(list)
    for ending in endings:
        for alias in _aliases(ending.lease):
            ids[alias].append(ending.lease.id)
    return ids


def _tidy(alias: str) -> None:
    if alias in connections:
        tidy(connections[alias])


def _recorded(told: Iterable[Ending], failures: Mapping[str, BaseException]) -> Recorded:
    error = NotRecorded([*failures], next(iter(failures.values()))) if failures else None
    return Recorded([*told], error)
