"""`manage.py runtaskworker`: run tasks until told to stop."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from argparse import ArgumentTypeError, BooleanOptionalAction
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections, router

from ...backend import RedisBackend
from ...broker.keys import NAME_BYTES, check_queue_name, check_worker_name
from ...broker.urls import mask_url
from ...checks import load_tasks
from ...compat import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from ...conf import did_you_mean
from ...task import remote_queues
from ...worker.settings import Settings
from ...worker.supervisor import ExitCode, Supervisor
from ..application import connect
from ..paths import export_path
from ..reloading import watch_code

logger = logging.getLogger("django_taskq.worker")

#: Connections of the supervisor where rows are kept: of those who write and who delete them.
SUPERVISOR_CONNECTIONS = 3
#: Children at most, where nobody says how many.
DEFAULT_PROCESSES = 4
#: What may be asked for; more is a slip of the hand, and no machine bears it.
MOST_PROCESSES, MOST_THREADS, MOST_COROUTINES = 1_000, 1_000, 100_000
#: Bytes of a worker's name; a child's id has nine more, and Django's columns for worker ids hold 64.
MOST_NAME_BYTES = 55


class Command(BaseCommand):
    help = "Run tasks from the queue until told to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, metavar="ALIAS", help="the entry of TASKS to serve")
        add("-q", "--queues", type=names, metavar="A,B", help="queues, in strict order; default: the backend's, or all")
        add("-x", "--exclude-queues", type=names, default=(), metavar="A,B", help="queues to leave alone")
        processes = partial(count, most=MOST_PROCESSES)
        add("--processes", type=processes, metavar="N", help="children; default: the usable CPUs, at most 4")
        threads, coroutines = partial(count, most=MOST_THREADS), partial(count, most=MOST_COROUTINES)
        add("--threads", type=threads, default=8, metavar="N", help="threads in each child for functions; default 8")
        add("--coroutines", type=coroutines, default=100, metavar="N", help="coroutines at once in each; default 100")
        add("--burst", action="store_true", help="exit when nothing is left to do")
        add("--max-tasks", type=count, metavar="N", help="replace a child after so many tasks")
        add("--max-memory", type=count, metavar="MB", help="replace a child that takes so much memory")
        add("--stall-timeout", type=seconds, default=300.0, metavar="S", help="kill a child that stood still; 0: never")
        add("--shutdown-timeout", type=seconds, default=25.0, metavar="S", help="grace after the first signal")
        add("--name", type=worker_name, help="name of this worker; default: host and process id")
        add("--reload", action=BooleanOptionalAction, help="replace children when code changes; default: DEBUG")
        add("--fail-fast", action="store_true", help="exit with code 4 when Redis can't be reached at the start")
        add("--health-file", type=Path, metavar="PATH", help="file to write about once a second, for a probe")
        add("--log-format", choices=["text"], default="text", help="form of the log lines")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = self._backend(options["backend"])
        reloads = options["reload"]
        if reloads is None:
            reloads = django_settings.DEBUG and not options["burst"]
        settings = make_settings(backend, reloads, options)
        check_settings(settings, backend)
        export_path()
        supervisor = Supervisor(
            settings,
            partial(connect, backend.alias, options["verbosity"]),
            method="spawn" if reloads else "forkserver",
            preload=["django_taskq.management.preload"],
        )
        logger.info("%s", start_line(settings, backend))
        if reloads:
            watch_code(supervisor.reload)
        code = supervisor.run()
        if code is not ExitCode.DRAINED:
            sys.exit(code)

    def _backend(self, alias: str) -> RedisBackend:
        try:
            backend = task_backends[alias]
            if not isinstance(backend, RedisBackend):
                raise ImproperlyConfigured(
                    f"The backend {alias!r} is no RedisBackend, and this worker serves only those."
                )
            backend.conf  # noqa: B018  # reads the options
        except ImproperlyConfigured as error:
            raise CommandError(str(error), returncode=ExitCode.CONFIGURATION) from error
        return backend


def make_settings(backend: RedisBackend, reloads: bool, options: dict[str, Any]) -> Settings:
    """Return what the arguments say."""
    megabytes = options["max_memory"]
    load_tasks()
    # It could only take remote tasks and give them back later.
    others = () if options["queues"] else remote_queues(backend.alias)
    return Settings(
        name=options["name"] or default_name(),
        lease=backend.conf.lease_seconds,
        queues=options["queues"] or listed_queues(backend),
        excluded=frozenset((*options["exclude_queues"], *others)),
        processes=options["processes"] or (1 if reloads else min(usable_cpus(), DEFAULT_PROCESSES)),
        threads=options["threads"],
        coroutines=options["coroutines"],
        burst=options["burst"],
        max_tasks=options["max_tasks"],
        max_memory=None if megabytes is None else megabytes * 2**20,
        stall_timeout=options["stall_timeout"],
        shutdown_timeout=options["shutdown_timeout"],
        fail_fast=options["fail_fast"],
        health_file=options["health_file"],
    )


def listed_queues(backend: RedisBackend) -> tuple[str, ...]:
    """Return the backend's QUEUES in their order, which Django's set has lost."""
    return tuple(dict.fromkeys(backend.params.get("QUEUES", sorted(backend.queues))))


def check_settings(settings: Settings, backend: RedisBackend) -> None:
    """Refuse what a worker could never do anything with."""
    problem = (
        _queue_problem(settings, listed_queues(backend), backend.alias)
        or _file_problem(settings.health_file)
        or _table_problem(backend)
    )
    if problem:
        raise CommandError(problem, returncode=ExitCode.CONFIGURATION)


def _queue_problem(settings: Settings, listed: tuple[str, ...], alias: str) -> str | None:
    for name in settings.queues:
        if listed and name not in listed:
            where = f"QUEUES of TASKS[{alias!r}] ({', '.join(listed)})"
            return f"{name!r} isn't in {where}.{did_you_mean(name, listed)}"
    if settings.queues and not settings.served:
        why = "each is named by --exclude-queues, or has only remote tasks"
        return f"No queue is left to serve of {', '.join(settings.queues)}: {why}. --queues names what to serve."
    return None


def _file_problem(path: Path | None) -> str | None:
    if path is None:
        return None
    if path.is_dir():
        return f"--health-file must name a file, and {str(path)!r} is a folder."
    try:
        # Only a try tells: an administrator may write where the file system lets nobody.
        TemporaryFile(dir=path.parent, prefix=f".{path.name}.").close()
    except OSError as error:
        return f"--health-file can't be written: {error}"
    return None


def _table_problem(backend: RedisBackend) -> str | None:
    if not backend.conf.keeps_records:
        return None
    from ...models import TaskRecord  # which needs the app
    from ...tables import remedy, table_problem

    alias = router.db_for_write(TaskRecord)
    try:
        problem = table_problem(alias)
    except Exception:  # a database that is away is waited for, as it is later
        return None
    finally:
        connections[alias].close()
    return problem and f"The database {alias!r} can't keep records: {problem}. {remedy(alias)}"


def start_line(settings: Settings, backend: RedisBackend) -> str:
    """Say what is about to run, and what it asks of the databases."""
    queues = ", ".join(settings.served) or "all that are used"
    if not settings.queues and settings.excluded:
        queues += f" but {', '.join(sorted(settings.excluded))}"
    if others := sorted(settings.excluded & remote_queues(backend.alias)):
        queues += f" (left to the programs that work on remote tasks: {', '.join(others)})"
    # Each thread has a connection, and one more that waits for work in turn with them; the coroutines of a child share
    # one, and so do its rows.
    each = settings.processes * (settings.threads + 2)
    if backend.conf.keeps_records:
        each += settings.processes + SUPERVISOR_CONNECTIONS
    return (
        f"Worker {settings.name} serves backend {backend.alias!r}, queues: {queues}. Children: {settings.processes}, "
        f"each with {settings.threads} threads and {settings.coroutines} coroutines; that makes up to {each} "
        f"connections to each of these databases: {', '.join(connections)}. Redis: {mask_url(backend.conf.url)}, "
        f"namespace {backend.conf.namespace!r}"
    )


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def default_name() -> str:
    """Return the host's name, as far as it may stand in one of ours, and the process id."""
    end = f"-{os.getpid()}"
    host = re.sub(r"[^0-9A-Za-z._-]", "-", socket.gethostname())[: MOST_NAME_BYTES - len(end)]
    return host + end


def names(text: str) -> tuple[str, ...]:
    """Parse queue names, separated by commas."""
    return tuple(_checked(check_queue_name, name.strip()) for name in text.split(","))


def worker_name(text: str) -> str:
    """Parse the name of a worker."""
    if len(text.encode()) > min(MOST_NAME_BYTES, NAME_BYTES):
        raise ArgumentTypeError(f"a name has at most {MOST_NAME_BYTES} bytes")
    return _checked(check_worker_name, text)


def _checked(check: Any, text: str) -> str:
    try:
        return str(check(text))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def count(text: str, most: int = 10**15) -> int:
    """Parse a number of at least 1."""
    if not text.isascii() or not text.isdigit() or not text.strip("0"):
        raise ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    if len(text) > len(str(most)) or int(text) > most:
        raise ArgumentTypeError(f"{text[:30]} is too many; at most {most}")
    return int(text)


def seconds(text: str) -> float:
    """Parse a number of seconds, at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return value
