"""`BackgroundTask`, and the decorator that makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from asgiref.sync import async_to_sync, sync_to_async

from . import registry
from .compat import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, InvalidTask, Task, TaskResult, base
from .conf import did_you_mean
from .context import BackgroundContext, upgraded
from .policy import Backoff, ExceptionClasses, check_policy, check_remote, check_run_after

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: The arguments of one call.
Call = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTask(Task, Generic[P, R]):
    """A task with a policy for its attempts; None leaves a setting to the backend.

    Parent methods are called by class: zero-argument super() fails in dataclasses with slots before Python 3.14.
    """

    # A template that shows `result.task.name` would run the task: Django calls what can be called.
    do_not_call_in_templates = True
    #: Whether another program works on it.
    is_remote = False

    wire_name: str = ""  # Its name in the queue, the import path by default; it survives a move of the function.
    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None  # Seconds that one attempt may take.
    result_ttl: float | None = None  # Seconds that the result is kept.
    retry_on: ExceptionClasses = (BaseException,)  # Other exceptions make it a dead letter at once.
    bury_on: ExceptionClasses = ()  # These do so even when retry_on holds them.
    on_commit: bool | str | None = False
    outbox: bool | str | None = False  # Whether, or in which database, it has a row from the enqueue on.
    atomic: bool | str | None = False  # Whether, or in which database, its effects are one with its end.
    run_after_delay: timedelta | None = None  # Counts on Redis's clock, from the moment the record reaches it.
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        Task.__post_init__(self)
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["wire_name"] = self.wire_name or self.module_path
        for name, value in check_policy(values).items():
            object.__setattr__(self, name, value)
        if (self.outbox or self.atomic) and self.on_commit is False:
            raise InvalidTask(
                f"{self.name}: on_commit can't be False with an outbox, which is part of the transaction."
            )
        if self.atomic and iscoroutinefunction(self.func):
            raise InvalidTask("atomic is for functions: a coroutine can't be in a transaction.")
        if self.run_after_delay is not None and not self.get_backend().supports_defer:
            raise InvalidTask("Backend does not support run_after.")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the import path of the function, and all other fields."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "func"}
        return _rebuilt, (type(self), self.module_path, values)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now; nothing is added."""
        return cast(R, self.func(*args, **kwargs))

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        idempotency_key: str | None = None,
        on_commit: bool | str | None = None,
    ) -> BackgroundTask[P, R]:
        """Return a copy for the next enqueue; None leaves a setting unchanged."""
        given: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "backend": backend,
            "idempotency_key": idempotency_key,
            "on_commit": on_commit,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if run_after is not None:
            changes |= check_run_after(run_after)
        return replace(self, **changes)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """Enqueue the task, when what it waits for has committed."""
        return self.get_backend().enqueue(self, list(args), kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """See enqueue()."""
        return await self.get_backend().aenqueue(self, list(args), kwargs)

    def enqueue_many(self, calls: Iterable[Call]) -> list[TaskResult]:
        """Enqueue the task once for each pair of args and kwargs, a thousand in the time of one round trip."""
        backend = self.get_backend()
        if hasattr(backend, "enqueue_many"):
            return cast(list[TaskResult], backend.enqueue_many(self, calls))
        return [backend.enqueue(self, list(args), dict(kwargs)) for args, kwargs in calls]

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function to its end, as a backend does."""
        bound = self._bound(args, kwargs)
        return async_to_sync(bound)() if iscoroutinefunction(self.func) else bound()

    async def acall(self, /, *args: Any, **kwargs: Any) -> Any:
        """See call()."""
        bound = self._bound(args, kwargs)
        return await (bound() if iscoroutinefunction(self.func) else sync_to_async(bound)())

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> partial[Any]:
        if self.takes_context and args and isinstance(args[0], base.TaskContext):
            args = (upgraded(args[0]), *args[1:])
        return partial(self.func, *args, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTask(BackgroundTask[P, R]):
    """A task that another program works on, by its name: it is enqueued here, and its function is never called."""

    is_remote = True

    def __post_init__(self) -> None:
        check_remote({each.name: getattr(self, each.name) for each in fields(self)})
        object.__setattr__(self, "outbox", False)  # whatever the backend's option says
        BackgroundTask.__post_init__(self)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Raise RuntimeError, for there is nothing here that could be called."""
        raise self._never_here()

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> partial[Any]:
        raise self._never_here()

    def _never_here(self) -> RuntimeError:
        return RuntimeError(
            f"{self.wire_name} is a remote task, which never runs here: enqueue it, on a RedisBackend, "
            "or on a DummyBackend in tests."
        )


def _rebuilt(task_class: type[BackgroundTask[..., Any]], path: str, values: dict[str, Any]) -> BackgroundTask[..., Any]:
    """Make a pickled task anew from the one at its import path."""
    try:
        found = registry.find(values["wire_name"], path)
    except registry.NotATask:
        found = None
    if found is None:
        raise ValueError(f"Expected {path!r} to point to a Task instance.")
    return task_class(func=found.func, **values)


def unchecked(kind: type[T], values: Mapping[str, Any]) -> T:
    """Make a dataclass without running its checks: what was stored can be shown after the settings have changed."""
    made = object.__new__(kind)
    for each in fields(cast(Any, kind)):
        object.__setattr__(made, each.name, values.get(each.name, each.default))
    return made


def remote_queues(backend: str) -> set[str]:
    """Return the queues in which, of all tasks that are declared for a backend, only remote ones are."""
    tasks = [task for task in registry.tasks() if task.backend == backend]
    remote = {task.queue_name for task in tasks if isinstance(task, RemoteTask)}
    return remote - {task.queue_name for task in tasks if not isinstance(task, RemoteTask)}


def as_background(task: Task) -> BackgroundTask[..., Any]:
    """Return a task with a policy; a stock one gets the default."""
    if isinstance(task, BackgroundTask):
        return task
    values = {each.name: getattr(task, each.name) for each in fields(task)}
    return unchecked(BackgroundTask, {"wire_name": task.module_path, **values})


class Declaration(TypedDict, total=False):
    """What a declaration may say besides `takes_context`."""

    priority: int
    queue_name: str
    backend: str
    name: str | None
    max_attempts: int | None
    backoff: float | Mapping[str, Any] | Backoff | None
    timeout: float | None
    result_ttl: float | None
    retry_on: type[BaseException] | Iterable[type[BaseException]]
    bury_on: type[BaseException] | Iterable[type[BaseException]]
    on_commit: bool | str | None
    outbox: bool | str | None
    atomic: bool | str | None
    remote: bool


_DEFAULTS = {
    "priority": 0,
    "queue_name": DEFAULT_TASK_QUEUE_NAME,
    "backend": DEFAULT_TASK_BACKEND_ALIAS,
    "run_after": None,
    "on_commit": None,
    "outbox": None,
}
_KNOWN = ("takes_context", *Declaration.__annotations__)
_GIVEN_AT_ENQUEUE = ("run_after", "idempotency_key")


@overload
def background(function: Callable[P, R], /, **options: Unpack[Declaration]) -> BackgroundTask[P, R]: ...
@overload
def background(
    *, takes_context: Literal[True], **options: Unpack[Declaration]
) -> Callable[[Callable[Concatenate[BackgroundContext, P], R]], BackgroundTask[P, R]]: ...
@overload
def background(
    *, takes_context: Literal[False] = False, **options: Unpack[Declaration]
) -> Callable[[Callable[P, R]], BackgroundTask[P, R]]: ...
def background(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task that waits for the commit, is retried, and can still be called plainly."""
    for option in options:
        if option in _GIVEN_AT_ENQUEUE:
            raise TypeError(f"{option} belongs to one enqueue, not to the declaration: task.using({option}=...).")
        if option not in _KNOWN:
            raise TypeError(f"background() has no argument {option!r}.{did_you_mean(option, _KNOWN)}")
    named = check_policy({"wire_name": options.pop("name", None)})
    kind: type[BackgroundTask[..., Any]] = RemoteTask if options.pop("remote", False) else BackgroundTask

    def declare(func: Callable[..., Any]) -> BackgroundTask[..., Any]:
        task = kind(func=func, **{**_DEFAULTS, **options, **named})
        if task.atomic and task.outbox is False:
            raise InvalidTask(
                f"{task.name}: an atomic task has an outbox, whose row ends with its effects: leave outbox=False out."
            )
        registry.register(task)
        return task

    return declare if function is None else declare(function)
