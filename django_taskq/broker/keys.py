"""Every key in Redis, and what may stand in one.

All keys of a namespace share the hash tag ``{ns}``, so that each script is one atomic step on a cluster too.

=============================  ======  =================================================================
``{ns}:task:<id>``             STRING  what was enqueued, never changed: head lines, an empty line, envelope
``{ns}:run:<id>``              HASH    what has happened to it; made by the first claim or cancel
``{ns}:log:<id>``              LIST    the last 20 ended attempts
``{ns}:queue:<q>:ready``       ZSET    score ``available_at_ms - priority * 10^13``
``{ns}:queue:<q>:scheduled``   ZSET    score due time in ms
``{ns}:queue:<q>:leased``      ZSET    score end of the lease in ms
``{ns}:queue:<q>:dead``        ZSET    score time of death in ms
``{ns}:queue:<q>:wake``        ZSET    one marker that a waiting worker pops
``{ns}:queue:<q>:config``      HASH    paused, limits
``{ns}:queues``                SET     queue names
``{ns}:idem:<key>``            STRING  idempotency key -> id of its record
``{ns}:claim:<child>``         HASH    journal of a child's last claim
``{ns}:worker:<worker>``       HASH    presence
``{ns}:workers``               ZSET    worker names by the end of their presence
``{ns}:repaired``              HASH    database alias -> the server at which all its rows were asked about
=============================  ======  =================================================================

What always holds:

1. A record is in exactly one of ready, scheduled, leased and dead, or in none when it succeeded or was
   cancelled. The sorted sets say where it is; ``state`` in its run hash is a copy.
2. Whoever settles shows the fencing token of its lease, and an older one changes nothing.
3. A token never goes back: a new one is ``max(last + 1, now in ms)``.
4. Only Redis's clock counts.
5. Envelopes are opaque to the scripts.
6. Undelivered work has no TTL; what has ended has one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .exceptions import InvalidName

#: Most bytes that a queue or worker name may have.
NAME_BYTES = 100
#: Most bytes that a child's id may have: its worker's name, a dot and 8 characters.
CHILD_BYTES = NAME_BYTES + 9
#: Largest priority, and largest negative one.
LARGEST_PRIORITY = 100
#: Most bytes that an idempotency key may have.
KEY_BYTES = 255

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_RESERVED = re.compile(r"[{}:*]")
_ID = re.compile(r"[0-9A-Za-z]{1,63}")


def _check(what: str, name: object, limit: int, reserved: bool) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidName(f"{what} must be a non-empty string, not {name!r}.")
    if _CONTROL.search(name) or (reserved and _RESERVED.search(name)):
        without = "control characters and { } : *" if reserved else "control characters"
        raise InvalidName(f"{what} {name!r} must be without {without}.")
    if (size := len(name.encode())) > limit:
        raise InvalidName(f"{what} {name[:20]!r}… has {size} bytes; at most {limit} are allowed.")
    return name


def check_namespace(name: object) -> str:
    """Return a namespace, or raise `InvalidName`."""
    return _check("The namespace", name, NAME_BYTES, reserved=True)


def check_queue_name(name: object) -> str:
    """Return a queue name, or raise `InvalidName`."""
    return _check("The queue name", name, NAME_BYTES, reserved=True)


def is_queue_name(name: str) -> bool:
    """Tell whether a queue may be called so."""
    try:
        return bool(check_queue_name(name))
    except InvalidName:
        return False


def check_worker_name(name: object) -> str:
    """Return a worker name, or raise `InvalidName`; it stands in log lines, so it has no spaces."""
    return _without_spaces("The worker name", _check("The worker name", name, NAME_BYTES, reserved=True))


def check_child_id(name: object) -> str:
    """Return the id of a child, or raise `InvalidName`."""
    return _without_spaces("The child's id", _check("The child's id", name, CHILD_BYTES, reserved=True))


def _without_spaces(what: str, name: str) -> str:
    if " " in name:
        raise InvalidName(f"{what} {name!r} must be without spaces.")
    return name


def check_idempotency_key(key: object) -> str:
    """Return an idempotency key, or raise `InvalidName`."""
    return _check("The idempotency key", key, KEY_BYTES, reserved=False)


def check_priority(priority: object) -> int:
    """Return a priority, or raise `InvalidName`; with more than ±100, a score would lose its last digits."""
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > LARGEST_PRIORITY:
        raise InvalidName(
            f"The priority must be an integer from -{LARGEST_PRIORITY} to {LARGEST_PRIORITY}, not {priority!r}."
        )
    return priority


def check_record_alias(alias: object) -> str:
    """Return the database alias of a record's row, or raise `InvalidName`."""
    return _check("The database alias", alias, NAME_BYTES, reserved=False)


def check_id(record_id: object) -> str:
    """Return the id of a record, or raise `InvalidName`."""
    if not isinstance(record_id, str) or not _ID.fullmatch(record_id):
        raise InvalidName(f"A record's id is 1 to 63 letters and digits, not {record_id!r}.")
    return record_id


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one namespace."""

    namespace: str

    def __post_init__(self) -> None:
        check_namespace(self.namespace)

    def _key(self, *parts: str) -> str:
        return ":".join(("{" + self.namespace + "}", *parts))

    @property
    def queues(self) -> str:
        return self._key("queues")

    @property
    def workers(self) -> str:
        return self._key("workers")

    @property
    def repaired(self) -> str:
        return self._key("repaired")

    def task(self, record_id: str) -> str:
        return self._key("task", record_id)

    def run(self, record_id: str) -> str:
        return self._key("run", record_id)

    def log(self, record_id: str) -> str:
        return self._key("log", record_id)

    def ready(self, queue: str) -> str:
        return self._key("queue", queue, "ready")

    def scheduled(self, queue: str) -> str:
        return self._key("queue", queue, "scheduled")

    def leased(self, queue: str) -> str:
        return self._key("queue", queue, "leased")

    def dead(self, queue: str) -> str:
        return self._key("queue", queue, "dead")

    def wake(self, queue: str) -> str:
        return self._key("queue", queue, "wake")

    def config(self, queue: str) -> str:
        return self._key("queue", queue, "config")

    def idem(self, key: str) -> str:
        return self._key("idem", key)

    def claim(self, child: str) -> str:
        return self._key("claim", child)

    def worker(self, worker: str) -> str:
        return self._key("worker", worker)
