"""Ask Redis about the rows of tasks that haven't ended, and push again what it doesn't have.

Every worker does it and none leads: whoever takes a row notes so in it, and what two do at once is done once. A row is
asked about soon after it was inserted, and then once an hour. When Redis has restarted, or has forgotten that it was
asked, all rows are asked about at once.

All of this goes by Redis's clock, so that a worker whose own is wrong hides no row from the others.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta

from django.db import DatabaseError, OperationalError, connections, reset_queries, router, transaction
from django.db.models import QuerySet

from . import fence, results, rows
from .broker.broker import Broker
from .broker.exceptions import BrokerUnavailable, ConfigurationError, OutOfMemory, TaskqError
from .broker.inspector import Inspector
from .broker.records import Enqueued, NewRecord, Record, Repaired, State
from .commit import ensure_autocommit
from .compat import signals
from .conf import Options
from .models import TaskRecord
from .outbox import OPEN, record_aliases, record_of
from .worker.outage import Outage

logger = logging.getLogger("django_taskq.worker")

#: From one time that Redis is asked about a row to the next.
INTERVAL = timedelta(seconds=3000)
#: For so long a row is left to the worker that took it.
TAKEN = timedelta(seconds=60)
#: Rows that are asked about at once, and rows that are in memory at once with all that was enqueued.
PAGE, CHUNK = 500, 64
#: Seconds that one round takes, then its pause when more is to be done, when not, and where there is no outbox.
ROUND, PAUSE, IDLE, LONG_IDLE = 1.0, 0.05, 5.0, 60.0
#: Seconds between two looks for rows in a database of which nothing says here that it has an outbox, since its tasks
#: may be declared in modules that no supervisor imports.
SEEK = 60.0
#: Seconds between two looks for what is beyond all rules: a database without the table, a row put off too long.
LOOK = 3600.0
#: Seconds to wait, at most, for a database that is away.
LONGEST_PAUSE = 30.0

_ENDED = (State.SUCCEEDED, State.DEAD, State.CANCELLED)
_ALIVE = (State.WAITING, State.LEASED)


class Repair:
    """What a worker does about the outboxes of a backend, in all databases."""

    def __init__(self, backend: str, sender: type, conf: Options, broker: Broker) -> None:
        self._backend = backend
        self._sender = sender
        self._conf = conf
        self._broker = broker
        self._found: set[str] = set()
        self._looks_at = 0.0
        self._seeks_at: dict[str, float] = {}
        self._outages: dict[str, Outage] = {}
        #: When a database that was away may be tried again: its answer may be long in coming.
        self._resumes_at: dict[str, float] = {}

    def work(self) -> float:
        """Repair for a while, and return the seconds until the next round."""
        looks = time.monotonic() >= self._looks_at
        if looks:
            self._looks_at = time.monotonic() + LOOK
        repaired = self._broker.repaired()
        heard_at = time.monotonic()
        aliases = record_aliases(self._conf.records == "outbox") | self._found | repaired.marks.keys()
        aliases |= {alias for alias in {*connections} - aliases if self._holds_rows(alias)}
        pauses = [self._visit(alias, repaired, heard_at, looks) for alias in aliases & {*connections}]
        return min(pauses, default=LONG_IDLE)

    def _holds_rows(self, alias: str) -> bool:
        """Look now and then whether a database has open rows, whatever is declared here."""
        if time.monotonic() < self._seeks_at.get(alias, 0.0):
            return False
        self._seeks_at[alias] = time.monotonic() + SEEK
        try:
            if router.allow_migrate_model(alias, TaskRecord) and _asked_about(alias, self._backend).exists():
                self._found.add(alias)
        except OperationalError:
            pass  # it is away
        except Exception:  # it has no such table, and notes each question
            self._seeks_at[alias] = time.monotonic() + LOOK
        finally:
            _close(alias)
        return alias in self._found

    def _visit(self, alias: str, repaired: Repaired, heard_at: float, looks: bool) -> float:
        if (pause := self._resumes_at.get(alias, 0.0) - time.monotonic()) > 0:
            return pause
        outage = self._outages.setdefault(alias, Outage(logger, "Repair", LONGEST_PAUSE, f"The database {alias!r}"))
        try:
            ensure_autocommit(connections[alias])
            is_done = Pass(alias, self._backend, self._sender, self._conf, self._broker, looks).run(repaired, heard_at)
            connections[alias].close_if_unusable_or_obsolete()
        except TaskqError:
            raise
        except Exception as error:
            _close(alias)
            pause = outage.failed(error)
            self._resumes_at[alias] = time.monotonic() + pause
            return pause
        finally:
            reset_queries()
        outage.over()
        return random.uniform(0.5, 1) * IDLE if is_done else PAUSE


class Pass:
    """Asks about the rows of one database that are due, or of all when Redis may have lost something.

    With `looks` also about those that whoever wrote them put off too long, since its clock was wrong.
    """

    def __init__(
        self, alias: str, backend: str, sender: type, conf: Options, broker: Broker, looks: bool = False
    ) -> None:
        self._alias = alias
        self._backend = backend
        self._sender = sender
        self._key_ttl_ms = conf.idempotency_ttl_ms
        self._broker = broker
        self._looks = looks
        #: Added to the monotonic clock it is that of Redis, in ms, or behind: no row counts as asked about too late.
        self._ahead_ms = (time.time() - time.monotonic()) * 1000
        #: Since when Redis may have lost something: all rows that weren't asked about since then are.
        self._since: datetime | None = None
        self._pushed = 0

    def run(self, repaired: Repaired, heard_at: float) -> bool:
        """Work until all is asked about that is to be, or time is over; tell which. Redis answered at `heard_at`."""
        self._ahead_ms = repaired.now - heard_at * 1000
        ends_at = time.monotonic() + ROUND
        mark = self._begin(repaired)
        try:
            while True:
                taken, until = self._take()
                self._ask(taken, until)
                if len(taken) < PAGE:
                    if mark:
                        # Unless it was emptied meanwhile: then another mark is there, or none.
                        self._broker.repaired(self._alias, mark, repaired.server_id)
                    return True
                if time.monotonic() >= ends_at:
                    return False
        finally:
            if self._pushed:
                text = "Pushed %d tasks of the outbox in %r that Redis did not have"
                logger.warning(text, self._pushed, self._alias)

    def _begin(self, repaired: Repaired) -> str:
        """Return the mark under which all rows are asked about, by whoever began with it; or nothing."""
        server, mark = repaired.server_id, repaired.marks.get(self._alias, "")
        going_on = re.compile(rf"{re.escape(server)} (\d{{1,15}})")
        begun_at = going_on.fullmatch(mark)
        if mark != server and (begun_at is None or int(begun_at[1]) > self._now_ms()):
            begun = f"{server} {repaired.now}"
            mark = self._broker.repaired(self._alias, mark, begun).marks.get(self._alias, "")
        found = going_on.fullmatch(mark)
        if found is None:
            return ""
        self._since = results.moment(int(found[1]))
        return mark

    def _take(self) -> tuple[list[str], datetime]:
        """Take a page of rows; return their ids and until when they are ours."""
        now = self._now()
        until = now + TAKEN
        rows = _asked_about(self._alias, self._backend).order_by("repair_at").values_list("pk", flat=True)
        # Rows that another one takes just now are left to it, where the database can tell.
        skips = connections[self._alias].features.has_select_for_update_skip_locked
        if skips:
            rows = rows.select_for_update(skip_locked=True)
        with transaction.atomic(using=self._alias) if skips else nullcontext():
            # What was taken before the loss may have been asked about before it, too.
            due_by = now if self._since is None else max(now, self._since + TAKEN - results.MILLISECOND)
            taken = [*rows.filter(repair_at__lte=due_by)[:PAGE]]
            if self._since is not None and len(taken) < PAGE:
                # What was taken, or inserted, a moment ago is asked about within the minute anyway.
                rest = rows.filter(repair_at__gt=until, repair_at__lt=self._since + INTERVAL)
                taken += rest[: PAGE - len(taken)]
            if (self._looks or self._since is not None) and len(taken) < PAGE:
                # The clock of whoever inserted these is wrong.
                taken += rows.filter(repair_at__gt=until + INTERVAL)[: PAGE - len(taken)]
            if taken:
                self._rows(taken).update(repair_at=until)
        return taken, until

    def _ask(self, taken: Sequence[str], until: datetime) -> None:
        """Do what is to be done about these rows; what is neither alive nor to be pushed nor ended stays taken."""
        found: dict[str, list[str]] = defaultdict(list)
        try:
            for record_id, word in zip(taken, self._broker.states(taken), strict=True):
                found[word].append(record_id)
            self._later([record_id for state in _ALIVE for record_id in found[state]], until)
            self._close_duplicates(found["TAKEN"])
            self._close([record_id for state in _ENDED for record_id in found[state]])
            missing = [*found["GONE"], *found["LOST"]]
            for start in range(0, len(missing), CHUNK):
                self._push(missing[start : start + CHUNK], until)
        except TaskqError:
            self._rows(taken).filter(repair_at=until).update(repair_at=self._now())
            raise

    def _push(self, ids: Sequence[str], until: datetime) -> None:
        rows = {row.pk: row for row in self._rows(ids)}
        pushed = self._enqueue([record_of(row, self._now_ms(), self._key_ttl_ms) for row in rows.values()])
        self._later([key for key in rows if key not in pushed or pushed[key].state in _ALIVE], until)
        self._close_duplicates([key for key, one in pushed.items() if one.word == "TAKEN"])
        for key, one in pushed.items():
            if one.word == "STORED":
                self._pushed += 1
                self._announce(rows[key], one)

    def _enqueue(self, records: Sequence[NewRecord]) -> dict[str, Enqueued]:
        """Push records; one that can't be pushed, since a stranger wrote its row, keeps none of the others waiting."""
        try:
            answers = self._broker.enqueue(records)
            return {record.id: answer for record, answer in zip(records, answers, strict=True)}
        except (BrokerUnavailable, ConfigurationError, OutOfMemory):
            raise
        except TaskqError as error:
            if len(records) > 1:
                return {key: one for record in records for key, one in self._enqueue([record]).items()}
            logger.error("The row of %s can't be pushed: %s", records[0].id, error)
            return {}

    def _announce(self, row: TaskRecord, enqueued: Enqueued) -> None:
        result = rows.to_result(row)
        results.change(result, enqueued_at=results.moment(enqueued.enqueued_at))
        signals.task_enqueued.send_robust(self._sender, task_result=result)

    def _later(self, ids: Sequence[str], until: datetime) -> None:
        """Leave rows that are right, and still ours, for an hour."""
        asked_at = max(now := self._now(), self._since or now)
        self._rows(ids).filter(repair_at=until).update(repair_at=asked_at + INTERVAL)

    def _close_duplicates(self, ids: Sequence[str]) -> None:
        duplicate = TaskRecord.Status.DUPLICATE
        self._rows(ids).update(status=duplicate, finished_at=self._now(), repair_at=None)

    def _close(self, ids: Sequence[str]) -> None:
        """Let rows say how their records ended, which somebody did without them."""
        for start in range(0, len(ids), CHUNK):
            for record in Inspector(self._broker).records(ids[start : start + CHUNK]):
                if record is not None and record.state in _ENDED:
                    self._close_as(record)

    def _close_as(self, record: Record) -> None:
        said = rows.from_record(record, self._backend)
        for version in (said, rows.plain(said), rows.bare(said)):
            try:
                if self._rows([record.id]).filter(token__lte=version.token).update(**fence.ending(version)):
                    return
                if record.state is State.DEAD and self._rows([record.id]).exists():
                    # It was begun again after that death, of which an older copy of Redis tells.
                    self._broker.requeue([(record.id, record.died_at or 0, 0)])
                return
            except DatabaseError as error:
                failure = error
        raise failure

    def _now_ms(self) -> int:
        """Return the time on Redis's clock, whatever is done to the one here."""
        return int(time.monotonic() * 1000 + self._ahead_ms)

    def _now(self) -> datetime:
        return results.moment(self._now_ms())

    def _rows(self, ids: Sequence[str]) -> QuerySet[TaskRecord]:
        """Return those of these rows that are open."""
        return TaskRecord.objects.using(self._alias).filter(pk__in=ids, status__in=OPEN)


def _asked_about(alias: str, backend: str) -> QuerySet[TaskRecord]:
    return TaskRecord.objects.using(alias).filter(backend=backend, repair_at__isnull=False, status__in=OPEN)


def _close(alias: str) -> None:
    """Close a connection, whatever became of it."""
    try:
        connections[alias].close()
    except Exception:
        connections[alias].connection = None
