"""Records, leases and moments for the broker suite. Nothing waits: times are moved by writing scores and TTLs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from django_taskq.broker.broker import Broker
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.ids import new_id
from django_taskq.broker.inspector import PLACES, Inspector
from django_taskq.broker.records import AttemptError, Claim, Claimed, Lease, NewRecord, Record
from django_taskq.broker.settlements import Bury, Complete, Release, Retry

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

RESULT = b'{"result":42}'
ERROR = AttemptError("builtins.OSError", "no", "Traceback").to_json()
_nonces = itertools.count(1)


def envelope(name: str = "app.tasks.work", **fields: object) -> bytes:
    return Envelope(name=name, **fields).to_bytes()


def record(queue: str = "q", **fields: object) -> NewRecord:
    return NewRecord(**{"id": new_id(), "queue": queue, "envelope": envelope(), **fields})


def put(broker: Broker, count: int = 1, queue: str = "q", **fields: object) -> list[str]:
    """Enqueue new records and return their ids."""
    return [one.id for one in broker.enqueue([record(queue, **fields) for _ in range(count)])]


def request(
    count: int = 1,
    queues: Sequence[str] = ("q",),
    child: str = "worker.child",
    nonce: int | None = None,
    lease_ms: int = 30_000,
) -> Claim:
    return Claim(child, next(_nonces) if nonce is None else nonce, count, lease_ms, tuple(queues))


def claim(broker: Broker, count: int = 1, **fields: object) -> Claimed:
    return broker.claim(request(count, **fields))


def claim_ids(broker: Broker, count: int = 1, **fields: object) -> list[str]:
    return [lease.id for lease in claim(broker, count, **fields).leases]


def lease_one(broker: Broker, queue: str = "q", *, child: str = "worker.child", **fields: object) -> Lease:
    """Enqueue a record and lease it."""
    (record_id,) = put(broker, queue=queue, **fields)
    (lease,) = claim(broker, queues=[queue], child=child).leases
    assert lease.id == record_id
    return lease


def now(broker: Broker) -> int:
    seconds, micros = broker.client.time()
    return seconds * 1000 + micros // 1000


def lapse(broker: Broker, *leases: Lease, ago: int = 1) -> None:
    """Let leases have ended `ago` ms before now."""
    for lease in leases:
        broker.client.zadd(broker.keys.leased(lease.queue), {lease.id: now(broker) - ago}, xx=True)


def make_due(broker: Broker, *ids: str, queue: str = "q", ago: int = 1) -> None:
    """Let scheduled records be due since `ago` ms."""
    for record_id in ids:
        broker.client.zadd(broker.keys.scheduled(queue), {record_id: now(broker) - ago}, xx=True)


def places(broker: Broker, record_id: str, queue: str = "q") -> list[str]:
    """Name the sets that hold an id."""
    keys = broker.keys
    return [name for name in PLACES if broker.client.zscore(getattr(keys, name)(queue), record_id) is not None]


def score(broker: Broker, record_id: str, place: str, queue: str = "q") -> int:
    found = broker.client.zscore(getattr(broker.keys, place)(queue), record_id)
    assert found is not None, f"{record_id} isn't in {place} but in {places(broker, record_id, queue)}"
    assert found == int(found)
    return int(found)


def read(broker: Broker, record_id: str) -> Record:
    found = Inspector(broker).record(record_id)
    assert found is not None
    return found


def bury_one(broker: Broker, queue: str = "q", **fields: object) -> tuple[str, int]:
    """Enqueue, lease and bury a record; return its id and time of death."""
    lease = lease_one(broker, queue, **fields)
    assert broker.bury(lease, ERROR) == "DONE"
    return lease.id, score(broker, lease.id, "dead", queue)


def armed(broker: Broker, queue: str = "q") -> bool:
    return bool(broker.client.exists(broker.keys.wake(queue)))


def disarm(broker: Broker, queue: str = "q") -> None:
    broker.client.delete(broker.keys.wake(queue))


def ttl(broker: Broker, key: str) -> int | None:
    """Return a key's remaining ms, None when it stays for ever; it must exist."""
    left = broker.client.pttl(key)
    assert left != -2, f"{key} does not exist"
    return None if left == -1 else left


def has_ttl(broker: Broker, key: str, milliseconds: int) -> bool:
    """Tell whether a key goes after that time, give or take what passed since."""
    left = ttl(broker, key)
    return left is not None and milliseconds - 20_000 < left <= milliseconds


def dump(broker: Broker) -> dict[bytes, object]:
    """Read everything that Redis holds, to see that nothing was changed."""
    client = broker.client
    readers = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
    }
    return {key: readers[client.type(key)](key) for key in client.scan_iter(count=1000)}


class Held:
    """A lease as somebody remembers it."""

    def __init__(self, lease: Lease, **changes: object) -> None:
        self.id, self.queue, self.token = lease.id, lease.queue, lease.token
        self.__dict__.update(changes)


#: Every way in which a lease ends, by the name of its script.
SETTLEMENTS = {
    "complete": lambda lease: Complete(lease, RESULT),
    "retry": lambda lease: Retry(lease, 1000, ERROR),
    "bury": lambda lease: Bury(lease, ERROR),
    "release": lambda lease: Release(lease),
}


def settle(broker: Broker, kind: str, lease: Lease) -> str:
    return broker.exchange([SETTLEMENTS[kind](lease)], None)[0][0]


def message(line: bytes) -> str:
    """Return the message in a log line."""
    return json.loads(line.split(b" ", 5)[5])["message"]
