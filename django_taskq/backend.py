"""`RedisBackend`: what Django calls."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeGuard

from asgiref.sync import sync_to_async
from django.core.checks import CheckMessage
from django.db import DatabaseError, InterfaceError

from . import announcements, checks, registry, results
from .arguments import to_json
from .broker.broker import Broker
from .broker.exceptions import BrokerUnavailable, InvalidName, TaskqError
from .broker.inspector import Inspector
from .broker.keys import check_id, check_queue_name
from .broker.records import Enqueued, NewRecord, State
from .commit import OnCommit, after_commit
from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    signals,
)
from .conf import Options
from .producer import shared_producer
from .results import RecordForm
from .task import BackgroundTask, Call, as_background

Draft = tuple[TaskResult, NewRecord]

#: Tasks, and forms of them, that one backend keeps: the settings don't change under it, and tasks are frozen.
MOST_FORMS = 256


class RedisBackend(BaseTaskBackend):
    """Keeps tasks in Redis.

    Django makes one for each thread while modules load, so it connects to nothing and refuses no settings: the
    system checks name what is wrong, and so does the first use.
    """

    task_class = BackgroundTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        self.params = dict(params)
        queues = self.params.get("QUEUES", ())
        usable = isinstance(queues, Iterable) and not isinstance(queues, str)
        super().__init__(alias, self.params if usable else {**self.params, "QUEUES": []})
        #: Tasks that were found valid, by their id(), which is theirs as long as they are kept.
        self._valid: dict[int, Task] = {}
        #: By the id() of their task and the database of its rows.
        self._forms: dict[tuple[int, str | None], RecordForm] = {}

    @cached_property
    def conf(self) -> Options:
        """The options, read; raises ImproperlyConfigured."""
        return Options.parse(self.options)

    @property
    def broker(self) -> Broker:
        """The broker that this process shares."""
        return shared_producer(self.conf.url, self.conf.namespace).broker

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        return checks.check_backend(self.alias, self.params)

    def validate_task(self, task: Task) -> None:
        if task.run_after is not None and not isinstance(task.run_after, datetime):
            raise InvalidTask(f"run_after must be a datetime, not {task.run_after!r}.")
        try:
            super().validate_task(task)
        except InvalidTask as error:
            if self.queues and task.queue_name not in self.queues:
                known = ", ".join(sorted(self.queues))
                raise InvalidTask(f"{error} QUEUES of TASKS[{self.alias!r}] has: {known}.") from error
            raise
        try:
            check_queue_name(task.queue_name)
        except InvalidName as error:
            raise InvalidTask(str(error)) from error
        if self._has_outbox(task):
            # Of options that can't be used, the system checks tell, and so does the first use.
            default = self.options.get("on_commit", True) if isinstance(self.options, Mapping) else True
            if (default if task.on_commit is None else task.on_commit) is False:
                more = ", which atomic tasks have." if task.atomic else "; outbox=False leaves it out."
                raise InvalidTask(f"{task.name}: on_commit can't be False with an outbox{more}")

    def enqueue(  # type: ignore[override]  # generic in django-stubs
        self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult:
        self._ensure_valid(task)
        draft = self._draft(task, args, kwargs, "", self._record_alias(task))
        self._send(task, [draft])
        return draft[0]

    async def aenqueue(  # type: ignore[override]  # generic in django-stubs
        self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult:
        """Enqueue from a coroutine; only the thread-sensitive thread knows whether a transaction is open."""
        hop = sync_to_async(self.enqueue, thread_sensitive=self._on_commit(task) is not False)
        return await hop(task, args, kwargs)

    def enqueue_many(self, task: Task, calls: Iterable[Call]) -> list[TaskResult]:
        """Enqueue a task once for each pair of args and kwargs; nothing is stored when one of them is refused."""
        self._ensure_valid(task)
        alias = self._record_alias(task)
        drafts = [self._draft(task, *_pair(call, index), f"calls[{index}] ", alias) for index, call in enumerate(calls)]
        if len(drafts) > 1 and as_background(task).idempotency_key is not None:
            raise ValueError("One idempotency key can't stand for several tasks: enqueue them one by one.")
        if drafts:
            self._send(task, drafts)
        return [result for result, _ in drafts]

    def get_result(self, result_id: str) -> TaskResult:
        try:
            record = Inspector(self.broker).record(check_id(result_id))
        except InvalidName:
            raise TaskResultDoesNotExist(result_id) from None
        except BrokerUnavailable:
            with suppress(DatabaseError, InterfaceError):
                if self._has_rows and (ended := self._find_row(result_id, has_ended=True)) is not None:
                    return ended
            raise  # Of an open task only Redis knows how far it has come.
        # Redis keeps a record longer than its result when an idempotency key belongs to it.
        is_whole = record is not None and (record.state is not State.SUCCEEDED or record.history)
        found = None if is_whole or not self._has_rows else self._find_row(result_id)
        if found is None and record is not None:
            found = results.from_record(record, self.alias)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    async def aget_result(self, result_id: str) -> TaskResult:
        """See get_result(). Redis can be asked in any thread, the database only where the caller's queries run."""
        return await sync_to_async(self.get_result, thread_sensitive=self._has_rows)(result_id)

    @property
    def _has_rows(self) -> bool:
        """Whether some tasks have a row in a database."""
        return self.conf.keeps_records or any(map(self._has_outbox, registry.tasks()))

    def _find_row(self, result_id: str, *, has_ended: bool = False) -> TaskResult | None:
        from . import outbox, rows  # They need the models, and backends are made while these load.

        databases = [*([None] if self.conf.keeps_records else []), *sorted(outbox.record_aliases(False))]
        statuses = rows.ENDED if has_ended else ()
        found = [row for one in databases if (row := rows.find(result_id, self.alias, one, statuses)) is not None]
        # Where effects go elsewhere, a row in each database says how far it came.
        return max(found, key=lambda row: row.is_finished, default=None)

    def _on_commit(self, task: Task) -> OnCommit:
        chosen = as_background(task).on_commit
        return self.conf.on_commit if chosen is None else chosen

    def _ensure_valid(self, task: Task) -> None:
        """Validate a task, once unless it holds a moment: such tasks are made for one call."""
        if id(task) in self._valid:
            return
        self.validate_task(task)
        if task.run_after is None:
            if len(self._valid) == MOST_FORMS:
                self._valid.clear()
            self._valid[id(task)] = task

    def _has_outbox(self, task: Task) -> TypeGuard[BackgroundTask[..., Any]]:
        """Tell whether a task has a row from the enqueue on."""
        if not isinstance(task, BackgroundTask):
            return False
        default = isinstance(self.options, Mapping) and self.options.get("records") == "outbox"
        return bool(task.atomic or (default if task.outbox is None else task.outbox))

    def _record_alias(self, task: Task) -> str | None:
        """Return the database in which a task has a row from the enqueue on."""
        if not self._has_outbox(task):
            return None
        from . import outbox  # as above

        return outbox.database_of(task)

    def _draft(
        self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any], where: str, record_alias: str | None
    ) -> Draft:
        """Return the result to hand out and the record to store; all that can be refused is refused here."""
        if not isinstance(args, list | tuple) or not isinstance(kwargs, dict | Mapping):
            raise TypeError(
                f"{task.name}: {where}takes a list or tuple and a dict, not {args!r:.50} and {kwargs!r:.50}."
            )
        if task.takes_context and "context" in kwargs:
            raise TypeError(f"{task.name}: the argument 'context' is given to the task when it runs.")
        what = f"{task.name}: {where}"
        result = results.fresh(task, to_json(args, what + "args"), to_json(kwargs, what + "kwargs"), self.alias)
        return result, self._form(task, record_alias).record(result)

    def _form(self, task: Task, record_alias: str | None) -> RecordForm:
        """Return the form of a task, which is kept unless it holds a moment: such tasks are made for one call."""
        form = self._forms.get((id(task), record_alias))
        if form is None:
            form = RecordForm(task, self.conf, record_alias)
            if task.run_after is None:
                if len(self._forms) == MOST_FORMS:
                    self._forms.clear()
                self._forms[id(task), record_alias] = form
        return form

    def _send(self, task: Task, drafts: Sequence[Draft]) -> None:
        push = partial(self._push, drafts)
        if drafts[0][1].record_alias is not None:
            from . import outbox  # as above

            outbox.send(self.alias, drafts, push, self._on_commit(task))
        elif not after_commit(push, self._on_commit(task)):
            push()

    def _push(self, drafts: Sequence[Draft]) -> None:
        producer = shared_producer(self.conf.url, self.conf.namespace)
        outcomes = producer.push([record for _, record in drafts])
        is_heard = announcements.is_heard(signals.task_enqueued, logging.DEBUG)
        stored_at = moment = None  # Those of one page bear one time.
        for (result, record), enqueued in zip(drafts, outcomes, strict=True):
            if enqueued.word == "TAKEN":
                self._adopt(result, enqueued)
                if record.record_alias is not None:
                    from . import outbox  # as above

                    outbox.close_duplicate(record)
                continue
            if enqueued.enqueued_at != stored_at:
                stored_at, moment = enqueued.enqueued_at, results.moment(enqueued.enqueued_at)
            results.change(result, enqueued_at=moment)
            if is_heard:
                signals.task_enqueued.send_robust(type(self), task_result=result)

    def _adopt(self, result: TaskResult, existing: Enqueued) -> None:
        """Make a result that of the task which holds its idempotency key."""
        results.change(
            result,
            id=existing.id,
            status=results.STATUSES.get(existing.state, result.status),
            enqueued_at=results.moment(existing.enqueued_at),
        )
        try:
            results.become(result, self.get_result(existing.id))
        except (TaskResultDoesNotExist, TaskqError, DatabaseError, InterfaceError):
            pass  # It ended meanwhile, or nobody can be asked: the answer above is what is known.


def _pair(call: Call, index: int) -> tuple[Any, Any]:
    try:
        args, kwargs = call
    except (TypeError, ValueError):
        raise TypeError(
            f"calls[{index}] must be a pair of args and kwargs, as ((1,), {{}}), not {call!r:.50}."
        ) from None
    return args, kwargs
