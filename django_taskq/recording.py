"""Keep rows of what has ended: no text keeps one out, and nothing overwrites a newer one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.db import connections, reset_queries, router
from django.db.backends.base.base import BaseDatabaseWrapper

from . import rows
from .broker.broker import Broker
from .broker.envelope import DEFAULT_RESULT_TTL_MS
from .broker.exceptions import UnreadableRecord
from .broker.inspector import Inspector
from .broker.records import Lease, Record, State
from .models import TaskRecord
from .results import moment
from .rows import Row
from .upsert import upsert
from .worker.endings import Ending, NotRecorded
from .worker.outcomes import Succeeded

logger = logging.getLogger("django_taskq.worker")

#: Rows in one statement, and characters of their texts: MariaDB takes 16 MB, and escaping may double it.
BATCH_ROWS, BATCH_TEXT = 1000, 4_000_000
#: Rows in a row that can't be written in any form; then it isn't the rows.
_MOST_REFUSED = 3
#: Seconds. A database refuses a text sooner; what takes longer waited for something.
_PATIENCE = 3.0
#: Characters of an error in a log line.
_SHOWN = 500

_ENDED = {State.SUCCEEDED, State.DEAD, State.CANCELLED}


class Recorder:
    """Keeps the rows of one backend."""

    def __init__(self, alias: str, broker: Broker) -> None:
        self._alias = alias
        self._inspector = Inspector(broker)

    def write(self, endings: Sequence[Ending]) -> None:
        """Write the rows of records that are about to end, or raise `NotRecorded`."""
        known = self._known(endings)
        finished: list[Row] = []
        failures: dict[str, Exception] = {}
        for ending in endings:
            try:
                finished.append(rows.from_ending(ending, self._alias, known.get(ending.lease.id)))
            except Exception as error:  # it must not cost the others their results
                failures[ending.lease.id] = error
        try:
            write_finished(finished)
        except NotRecorded as error:
            raise NotRecorded([*error.ids, *failures], error.cause) from error
        finally:
            reset_queries()
        if failures:
            raise NotRecorded([*failures], next(iter(failures.values())))

    def succeeded(self, leases: Sequence[Lease]) -> Mapping[str, Succeeded]:
        """Return the results of those whose rows say that they succeeded under their tokens, or raise `NotRecorded`."""
        tokens = {lease.id: lease for lease in leases}
        connection = _connection()
        said = TaskRecord.objects.using(connection.alias).filter(pk__in=tokens, status=TaskRecord.Status.SUCCEEDED)
        try:
            found = [*said.values_list("pk", "token", "result")]
        except Exception as error:
            raise NotRecorded([*tokens], error) from error
        finally:
            reset_queries()
            _tidy(connection)
        return {pk: _success(tokens[pk], result) for pk, token, result in found if tokens[pk].token == token}

    def correct(self, endings: Sequence[Ending]) -> None:
        """Make the rows of endings that Redis refused say what it holds, or raise `NotRecorded`.

        A record that goes on has no row: the one that was written for this ending is taken away.
        """
        records = self._inspector.records([ending.lease.id for ending in endings])
        ended = []
        for ending, record in zip(endings, records, strict=True):
            if record is not None and record.state in _ENDED:
                ended.append(rows.from_record(record, self._alias))
            elif record is not None and ending.state:
                _take_back(rows.from_ending(ending, self._alias, record))
        write_finished(ended, overrule=True)

    def probe(self) -> None:
        """See whether the database takes rows, or raise `NotRecorded`."""
        connection = _connection()
        try:
            # No record has such an id; where nothing may be written, this is refused all the same.
            TaskRecord.objects.using(connection.alias).filter(pk="").update(token=0)
        except Exception as error:
            raise NotRecorded([], error) from error
        finally:
            _tidy(connection)

    def rest(self) -> None:
        """Do nothing for a while: a connection that Django would close after a request is closed."""
        _tidy(_connection())

    def _known(self, endings: Sequence[Ending]) -> dict[str, Record]:
        """Return what Redis holds of those whose lease doesn't tell all that belongs into the row."""
        ids = [ending.lease.id for ending in endings if ending.lease.attempt > 1 or ending.child is None]
        return {record.id: record for record in self._inspector.records(ids) if record is not None}


def write_finished(finished: Iterable[Row], *, overrule: bool = False) -> None:
    """Write rows, as `upsert` does.

    Text that the database refuses never keeps a row out: it is written without it. Raise `NotRecorded` when
    the database takes no rows.
    """
    connection = _connection()
    batches = list(_batches(_newest(finished)))
    unwritten: list[Row] = []
    cause: Exception | None = None
    for index, batch in enumerate(batches):
        refused, cause = _write(connection, batch, overrule)
        unwritten += refused
        if len(refused) == len(batch):
            unwritten += (row for later in batches[index + 1 :] for row in later)
            break
    if connection.settings_dict["CONN_MAX_AGE"] != 0:
        _tidy(connection)
    if unwritten:
        assert cause is not None
        raise NotRecorded([row.id for row in unwritten], cause) from cause


def _connection() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(TaskRecord)]


def _newest(finished: Iterable[Row]) -> list[Row]:
    """Return one row for each id, in the order in which all writers lock them."""
    newest: dict[str, Row] = {}
    for row in finished:
        if row.id not in newest or _order(newest[row.id]) <= _order(row):
            newest[row.id] = row
    return sorted(newest.values(), key=lambda row: row.id)


def _order(row: Row) -> tuple[int, bool]:
    return row.token, row.status == TaskRecord.Status.SUCCEEDED


def _batches(finished: Sequence[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in finished:
        length = len(row.envelope) + len(row.result) + len(row.history)
        if batch and (len(batch) >= BATCH_ROWS or size + length > BATCH_TEXT):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch


def _write(
    connection: BaseDatabaseWrapper, batch: Sequence[Row], overrule: bool
) -> tuple[Sequence[Row], Exception | None]:
    """Write rows in one statement, or each in its own; return those that couldn't be written, and why."""
    for _ in range(2):
        began = time.monotonic()
        try:
            upsert(connection, batch, overrule=overrule)
            return [], None
        except Exception as error:
            cause = error
        if time.monotonic() - began > _PATIENCE:
            return batch, cause
        if _answers(connection):
            break  # It isn't the connection, so it may be one of the rows.
        _tidy(connection)
        try:
            connection.ensure_connection()
        except Exception as error:
            return batch, error
    return _write_singly(connection, batch, cause, overrule)


def _write_singly(
    connection: BaseDatabaseWrapper, batch: Sequence[Row], cause: Exception, overrule: bool
) -> tuple[Sequence[Row], Exception | None]:
    unwritten: list[Row] = []
    in_a_row = 0
    for index, row in enumerate(batch):
        began = time.monotonic()
        error = _write_somehow(connection, row, overrule)
        in_a_row = in_a_row + 1 if error else 0
        if error:
            unwritten.append(row)
            cause = error
        if in_a_row >= _MOST_REFUSED or (error and time.monotonic() - began > _PATIENCE):
            return [*unwritten, *batch[index + 1 :]], cause
    return unwritten, cause


def _write_somehow(connection: BaseDatabaseWrapper, row: Row, overrule: bool) -> Exception | None:
    """Write a row, if need be in ASCII, or without its texts; return None when that worked."""
    failure: Exception | None = None
    for how, version in (("", rows.same), ("in ASCII", rows.plain), ("without its texts", rows.bare)):
        try:
            upsert(connection, [version(row)], overrule=overrule)
        except Exception as error:
            failure = failure or error
            _tidy(connection)
            continue
        if failure:
            shown = f"{type(failure).__name__}: {failure}"[:_SHOWN]
            logger.warning("The database refused the row of %s, so it is kept %s: %s", row.id, how, shown)
        return None
    return failure


def _answers(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether a connection that failed is still good for something."""
    try:
        return connection.connection is not None and connection.is_usable()
    except Exception:
        return False


def _tidy(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that is broken, or as old as it may get; not in the middle of a transaction."""
    if connection.in_atomic_block:
        return
    try:
        connection.close_if_unusable_or_obsolete()
    except Exception:
        connection.connection = None


def _success(lease: Lease, result: str) -> Succeeded:
    """Return what is said to Redis of a lease whose row holds this result."""
    try:
        result_ttl_ms = lease.envelope.result_ttl_ms
    except UnreadableRecord:
        result_ttl_ms = DEFAULT_RESULT_TTL_MS
    return Succeeded(f'{{"result":{result}}}'.encode() if result else b"{}", result_ttl_ms)


def _take_back(row: Row) -> None:
    """Delete a row if it is still the one that was written here."""
    written = {"pk": row.id, "token": row.token, "status": row.status, "finished_at": moment(row.finished_at or 0)}
    try:
        TaskRecord.objects.using(_connection().alias).filter(**written).delete()
    except Exception as error:
        raise NotRecorded([row.id], error) from error
