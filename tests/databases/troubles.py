"""What a database does to those that use it. Each is a context: trouble inside, none outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from django.db import connections

from tests.databases.engines import Engine
from tests.databases.routing import ALIAS

TABLE = "django_taskq_taskrecord"
Trouble = Callable[[Engine], AbstractContextManager[None]]


def is_postgresql() -> bool:
    return bool(connections[ALIAS].vendor == "postgresql")


@contextlib.contextmanager
def is_stopped(server: Engine) -> Iterator[None]:
    connections[ALIAS].close()
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextlib.contextmanager
def may_only_be_read(server: Engine) -> Iterator[None]:
    connections[ALIAS].close()
    # MariaDB's `read_only` doesn't bind its root.
    switch = "ALTER DATABASE taskq SET default_transaction_read_only = %s"
    refuse = switch % "on" if is_postgresql() else f"RENAME TABLE taskq.{TABLE} TO taskq.elsewhere"
    allow = switch % "off" if is_postgresql() else f"RENAME TABLE taskq.elsewhere TO taskq.{TABLE}"
    server.run(refuse)
    server.kill_sessions()
    try:
        yield
    finally:
        server.run(allow)
        server.kill_sessions()


#: A user that limits bind, unlike the superuser of the tests.
CLERK = "clerk"


def make_clerk(server: Engine) -> dict[str, str]:
    """Make the user, and return what makes it that of an entry in DATABASES."""
    if is_postgresql():
        with connections[ALIAS].cursor() as cursor:
            create = f"CREATE ROLE {CLERK} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL"
            cursor.execute(f"DO $$ BEGIN {create}; END $$")
            cursor.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {CLERK}")
    else:
        server.run(f"CREATE USER IF NOT EXISTS {CLERK}; GRANT ALL ON taskq.* TO {CLERK}")
    return {"USER": CLERK}


@contextlib.contextmanager
def has_no_connection_left(server: Engine) -> Iterator[None]:
    connections[ALIAS].close()
    if is_postgresql():
        refuse, allow = (f"ALTER ROLE {CLERK} CONNECTION LIMIT {limit}" for limit in (0, -1))
    else:
        # Its limits are counted from when they are set, so the first connection would be let in.
        refuse, allow = (f"ALTER USER {CLERK} ACCOUNT {word}" for word in ("LOCK", "UNLOCK"))
    server.run(refuse)
    server.kill_sessions()
    try:
        yield
    finally:
        server.run(allow)


@contextlib.contextmanager
def is_held_by_another(server: Engine) -> Iterator[None]:
    """Hold the table; who writes waits for as long as `IMPATIENT` lets it, and is refused then."""
    other = connections.create_connection(ALIAS)
    with other.cursor() as cursor:
        if is_postgresql():
            cursor.execute(f"BEGIN; LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
        else:
            cursor.execute(f"LOCK TABLES {TABLE} WRITE")
    try:
        yield
    finally:
        other.close()


@contextlib.contextmanager
def commits_slowly(server: Engine) -> Iterator[None]:
    """Let each change of a row take longer than a lease: at its commit, where the database can say that."""
    run = connections[ALIAS].cursor().execute
    if is_postgresql():
        run(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$"
        )
        when = f"AFTER INSERT OR UPDATE ON {TABLE} DEFERRABLE INITIALLY DEFERRED"
        run(f"CREATE CONSTRAINT TRIGGER dawdle {when} FOR EACH ROW EXECUTE FUNCTION dawdle()")
    else:
        for number, verb in enumerate(("INSERT", "UPDATE")):
            run(f"CREATE TRIGGER dawdle{number} BEFORE {verb} ON {TABLE} FOR EACH ROW DO SLEEP(1.5)")
    connections[ALIAS].close()
    try:
        yield
    finally:
        server.kill_sessions()
        run = connections[ALIAS].cursor().execute
        if is_postgresql():
            run(f"DROP TRIGGER dawdle ON {TABLE}")
            run("DROP FUNCTION dawdle")
        else:
            run("DROP TRIGGER dawdle0")
            run("DROP TRIGGER dawdle1")


#: For the entry in DATABASES: wait half a second for what another holds, or the shortest that there is.
IMPATIENT = {
    "postgresql": {"options": "-c lock_timeout=500"},
    "mariadb": {"init_command": "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1"},
}

#: Those in which no row is written.
REFUSING: dict[str, Trouble] = {
    "is restarted": is_stopped,
    "may only be read": may_only_be_read,
    "has no connection left": has_no_connection_left,
    "is held by another": is_held_by_another,
}
