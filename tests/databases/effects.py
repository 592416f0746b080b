"""Tasks whose effects are to happen exactly once, and a table that shows how often they did."""

from __future__ import annotations

from collections.abc import Callable

from django.db import DatabaseError, connections, transaction

from django_taskq import background
from tests.databases.routing import ALIAS
from tests.redis.jobs import note, wait_for_note

TABLE = "effect"
#: A table of numbers, each in a row that can be locked alone.
NUMBERS = "counted"
#: The other database, where a test has one.
ELSEWHERE = "effects"

#: What a test does while the body of `charge` runs in its own process, by the name of the charge; each is done once.
meanwhile: dict[str, Callable[[], None]] = {}


def create(alias=ALIAS):
    with connections[alias].cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(f"DROP TABLE IF EXISTS {NUMBERS}")
        # No key forbids a second one.
        cursor.execute(f"CREATE TABLE {TABLE} (name VARCHAR(50))")
        cursor.execute(f"CREATE TABLE {NUMBERS} (name VARCHAR(50) PRIMARY KEY, number INTEGER)")
        cursor.executemany(f"INSERT INTO {NUMBERS} VALUES (%s, %s)", [("left", 0), ("right", 0)])


def add(name, alias=ALIAS):
    with connections[alias].cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} VALUES (%s)", [name])


def bump(name, alias=ALIAS):
    with connections[alias].cursor() as cursor:
        cursor.execute(f"UPDATE {NUMBERS} SET number = number + 1 WHERE name = %s", [name])


def effects(alias=ALIAS):
    """Return the names of all effects, sorted."""
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT name FROM {TABLE} ORDER BY name")
        return [name for (name,) in cursor.fetchall()]


def numbers(alias=ALIAS):
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT number FROM {NUMBERS} ORDER BY name")
        return [number for (number,) in cursor.fetchall()]


@background(atomic=True, backoff=0)
def charge(name, alias=ALIAS):
    """Have an effect, and let the test do what it wants meanwhile."""
    add(name, alias)
    meanwhile.pop(name, lambda: None)()
    return name


@background(atomic=True, max_attempts=1)
def charge_once(name):
    return charge.func(name)


@background(atomic=True, backoff=0)
def charge_slowly(name, until="", alias=ALIAS):
    """Have an effect before and after a wait, in a worker's process."""
    add(name, alias)
    note("begin", name)
    if until:
        wait_for_note(until)
    note("end", name)
    return name


@background(atomic=True, timeout=0.3, max_attempts=1)
def charge_for_ever(name):
    add(name)
    note("begin", name)
    wait_for_note("never")


@background(atomic=True, backoff=0)
def charge_and_fail(name):
    add(name)
    raise OSError(name)


@background(atomic=True, backoff=0)
def charge_object(name):
    add(name)
    return object()


@background(atomic=True, backoff=0)
def swallow(name, how):
    """Have an effect, catch an error of the database, and go on."""
    add(name)
    if how == "nested":
        with suppress_error(), transaction.atomic(using=ALIAS):
            add(f"{name}-undone")
            fail_in_database()
    elif how == "outer":
        with suppress_error():
            fail_in_database()
    elif how == "no savepoint":
        with suppress_error(), transaction.atomic(using=ALIAS, savepoint=False):
            fail_in_database()
    elif how == "roll back":
        transaction.set_rollback(True, using=ALIAS)
    elif how == "close":
        connections[ALIAS].close()
    return name


class suppress_error:
    def __enter__(self):
        pass

    def __exit__(self, kind, error, traceback):
        return isinstance(error, DatabaseError)


def fail_in_database():
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("INSERT INTO no_such_table VALUES (1)")


@background(atomic=True, backoff=0)
def give_twice(first, second, weight=0):
    """Bump two numbers, in this order; MariaDB prefers a victim of less weight."""
    for _ in range(weight):
        add("weight")
    bump(first)
    meanwhile.pop(first, lambda: None)()
    bump(second)


@background(atomic=True, backoff=0)
def catch_deadlock(first, second):
    add("lost with the deadlock")
    bump(first)
    meanwhile.pop(first, lambda: None)()
    with suppress_error():
        bump(second)
    add("after the deadlock")


@background(atomic=True, backoff=0)
def define():
    """End the transaction of a MariaDB by DDL."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS defined (number INTEGER)")


@background(atomic=True, backoff=0)
def enqueue_more(name, then="commit"):
    add(name)
    follow.enqueue(name)
    meanwhile.pop(name, lambda: None)()
    if then == "fail":
        raise OSError(name)


@background(outbox=True)
def follow(name):
    return name


@background(atomic=True, backoff=0)
def hook(name):
    add(name)
    transaction.on_commit(lambda: 1 / 0, using=ALIAS)
    follow.enqueue(name)


@background(atomic=True, takes_context=True)
def show(context, name):
    add(name)
    return [context.fencing_token, context.idempotency_key, context.attempt]
