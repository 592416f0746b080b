"""The write side of the queue: one method a transition."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from . import client as clients
from . import diagnosis, enqueueing
from .enqueueing import Page
from .envelope import DEFAULT_RESULT_TTL_MS
from .exceptions import TaskqError
from .keys import (
    Keys,
    check_child_id,
    check_queue_name,
    check_record_alias,
    check_worker_name,
)
from .records import Claim, Claimed, Enqueued, Expired, Lease, NewRecord, Repaired
from .scripts import Call, run
from .settlements import Argument, Bury, Complete, Holding, Release, Retry, Settlement

#: Records in one call of a script, and bytes of their envelopes.
BATCH_RECORDS = 1000
BATCH_BYTES = 2**20
#: Milliseconds that a cancelled record stays readable, where the caller doesn't say.
_CANCELLED_TTL_MS = DEFAULT_RESULT_TTL_MS

Renewable = tuple[str, str, int]


class Broker:
    """Talks to the queue in one namespace; threads share it. All errors are those of `exceptions`."""

    def __init__(self, client: clients.Client, namespace: str = "taskq", waiting: clients.Client | None = None) -> None:
        self.client = client
        self.keys = Keys(namespace)
        self._waiting = waiting
        self._url: str | None = None

    @classmethod
    def from_url(cls, url: str, namespace: str = "taskq", timeout: float = clients.SOCKET_TIMEOUT) -> Broker:
        """Return a broker on this process's shared connections; it connects when first used.

        It waits `timeout` seconds for a reply.
        """
        broker = cls(clients.connect(url, timeout), namespace, clients.connect_waiting(url))
        broker._url = url
        return broker

    def hastier(self, timeout: float) -> Broker:
        """Return one that waits only so many seconds for a reply; itself, if it doesn't wait longer than that."""
        if self._url is None or timeout >= clients.SOCKET_TIMEOUT:
            return self
        return Broker.from_url(self._url, self.keys.namespace, timeout)

    def enqueue(self, records: Sequence[NewRecord]) -> list[Enqueued]:
        """Store records, each once however often it is sent; raise the first error."""
        enqueued: list[Enqueued] = []
        for page in self.enqueue_pages(records):
            if isinstance(page, TaskqError):
                raise page
            enqueued += page
        return enqueued

    def enqueue_pages(self, records: Sequence[NewRecord]) -> Iterable[Page]:
        """Return what became of each page of records, or its error; see `enqueueing`."""
        return enqueueing.enqueue(self.client, self.keys.queues, records)

    def claim(self, claim: Claim) -> Claimed:
        """Lease up to `claim.count` ready records; promotes what is due."""
        return self.exchange((), claim)[1] or Claimed((), None)

    def exchange(self, settlements: Sequence[Settlement], claim: Claim | None) -> tuple[list[str], Claimed | None]:
        """Settle leases and claim new ones in one round trip; return a word for each settlement, and the claim.

        Words: DONE, ALREADY (settled so before), CANCELLED (it was asked to), LEASE_LOST, HELD (the lease that a
        reaper took for lapsed isn't), ORPHANED (Redis lost its body).
        """
        calls = list(_settle_calls(settlements))
        positions = [position for _, positions in calls for position in positions]
        requests = [call for call, _ in calls]
        if claim is not None:
            who, *queues = _claim_names(claim.child, tuple(claim.queues))
            arguments: list[Argument] = [who, claim.nonce, claim.count, claim.lease_ms, *queues]
            requests.append(Call("claim", arguments))
        if not requests:
            return [], None
        sent_at = time.monotonic()
        replies = run(self.client, self.keys.queues, requests)
        claimed = None if claim is None else _claimed(replies.pop(), sent_at + claim.lease_ms / 1000)
        words = [""] * len(settlements)
        for position, word in zip(positions, [word for reply in replies for word in reply], strict=True):
            words[position] = word.decode()
        return words, claimed

    def complete(self, lease: Holding, log_json: bytes, result_ttl_ms: int = DEFAULT_RESULT_TTL_MS) -> str:
        """Turn a leased record into a succeeded one."""
        return self._settle(Complete(lease, log_json, result_ttl_ms))

    def retry(self, lease: Holding, delay_ms: int, log_json: bytes, *, lapsed: bool = False) -> str:
        """Let a failed attempt be followed by another."""
        return self._settle(Retry(lease, delay_ms, log_json, lapsed))

    def bury(self, lease: Holding, log_json: bytes, *, lapsed: bool = False) -> str:
        """Turn a leased record into a dead letter."""
        return self._settle(Bury(lease, log_json, lapsed))

    def release(
        self, lease: Holding, delay_ms: int = 0, *, floor: int = 0, keep: bool = False, unknown: bool = False
    ) -> str:
        """Give a leased record back, with its attempt unless `keep`."""
        return self._settle(Release(lease, delay_ms, floor, keep, unknown))

    def renew(self, leases: Sequence[Renewable], lease_ms: int) -> list[str]:
        """Push leases (id, queue, token) further; return OK, CANCEL (held, but asked to stop) or LOST for each."""
        return self._words("renew", [lease_ms], leases)

    def expired(self, queues: Sequence[str], limit: int = 100, *, besides: Sequence[str] = ()) -> Expired:
        """Read a page of lapsed leases `besides` some; the caller decides, then sends Retry or Bury with `lapsed`."""
        names = [check_queue_name(queue) for queue in queues]
        now, next_lapse_ms, *rest = self.run("expired", [limit, len(besides), *besides, *names])
        leases = [
            _lease(group[:7], int(now), deadline=0.0, cancel_requested=bool(group[7])) for group in _groups(rest, 8)
        ]
        return Expired(leases, _milliseconds(next_lapse_ms))

    def promote(self, record_id: str) -> str:
        """Make a scheduled record ready now; DONE, MISSING or ORPHANED."""
        return str(self.run("promote", [record_id]).decode())

    def cancel(self, ids: Sequence[str], result_ttl_ms: int = _CANCELLED_TTL_MS) -> list[str]:
        """Cancel waiting records and ask leased ones to stop.

        Words: DONE, ASKED, ALREADY (cancelled before), ENDED (succeeded or dead), MISSING, ORPHANED.
        """
        return self._words("cancel", [result_ttl_ms], [(record_id,) for record_id in ids])

    def requeue(self, dead: Sequence[tuple[str, int, int]]) -> list[str]:
        """Give dead letters (id, died_at, delay_ms) new attempts: DONE, CHANGED, TAKEN or ORPHANED for each."""
        return self._words("requeue", [], dead)

    def discard(self, dead: Sequence[tuple[str, int]], result_ttl_ms: int = _CANCELLED_TTL_MS) -> list[str]:
        """Cancel dead letters (id, died_at): DONE, CHANGED or ORPHANED for each."""
        return self._words("discard", [result_ttl_ms], dead)

    def wait(self, queues: Sequence[str], seconds: float) -> str | None:
        """Wait for work; return the queue whose marker was popped, which obliges to claim or `arm`, or None."""
        client = self._waiting or self.client
        timeout = min(max(seconds, 0.01), clients.LONGEST_WAIT)
        markers = [self.keys.wake(check_queue_name(queue)) for queue in queues]
        with clients.translated(client):
            if hasattr(client, "send"):
                (popped,) = client.send(self.keys.queues, [("BZPOPMIN", *markers, str(timeout))])
                if isinstance(popped, Exception):
                    raise popped
            else:
                popped = client.bzpopmin(markers, timeout)
        if popped is None:
            return None
        return str(popped[0].decode()).removesuffix(":wake").partition(":queue:")[2]

    def arm(self, queue: str) -> None:
        """Put the marker back that `wait` popped, so that another worker claims."""
        with clients.translated(self.client):
            self.client.zadd(self.keys.wake(check_queue_name(queue)), {"1": 0})

    def states(self, ids: Sequence[str]) -> list[str]:
        """Return the state of each record, or GONE, LOST (in no sorted set), TAKEN (an alias), BODILESS (half gone)."""
        return self._words("states", [], [(record_id,) for record_id in ids])

    def repaired(self, alias: str = "", seen: str = "", mark: str = "") -> Repaired:
        """Return which server this is, and what is noted of databases; of one that is as `seen`, note a new mark."""
        now, server_id, *marks = self.run("repaired", [check_record_alias(alias), seen, mark] if alias else [])
        return Repaired(
            int(now), server_id.decode(), {name.decode(): mark.decode() for name, mark in _groups(marks, 2)}
        )

    def heartbeat(self, worker: str, fields: Mapping[str, str | int | float], ttl_ms: int) -> int:
        """Write a worker's presence, or take it away when there are no fields; return how many workers there are."""
        presence = [str(part) for pair in fields.items() for part in pair]
        return int(self.run("heartbeat", [check_worker_name(worker), ttl_ms, *presence]))

    def ping(self) -> None:
        """Raise when Redis can't be used now."""
        with clients.translated(self.client):
            self.client.ping()

    def server_warnings(self) -> list[str]:
        """Return what about the server's settings endangers the queue, one sentence each."""
        return diagnosis.warnings(self.client)

    def run(self, script: str, arguments: Sequence[Argument]) -> Any:
        """Run one script and return its reply."""
        return run(self.client, self.keys.queues, [Call(script, arguments)])[0]

    def _words(self, script: str, common: Sequence[Argument], groups: Sequence[Sequence[Argument]]) -> list[str]:
        """Run a script over groups of arguments, a thousand in one call; return its word for each group."""
        words: list[str] = []
        for start in range(0, len(groups), BATCH_RECORDS):
            page = (part for group in groups[start : start + BATCH_RECORDS] for part in group)
            words += [word.decode(errors="replace") for word in self.run(script, [*common, *page])]
        return words

    def _settle(self, settlement: Settlement) -> str:
        return self.exchange((settlement,), None)[0][0]


@lru_cache
def _claim_names(child: str, queues: tuple[str, ...]) -> tuple[str, ...]:
    """Check who claims, and from where: the same in each claim of a child, often with nothing else to do."""
    return check_child_id(child), *map(check_queue_name, queues)


def _settle_calls(settlements: Sequence[Settlement]) -> Iterator[tuple[Call, list[int]]]:
    """Yield one call for each kind of settlement (and 1 MiB), with the positions of what it settles."""
    kinds: dict[str, tuple[list[Argument], list[int]]] = {}
    sizes: dict[str, int] = {}
    for position, settlement in enumerate(settlements):
        script = settlement.script
        size = len(settlement.log_json)
        if script in kinds and (len(kinds[script][1]) >= BATCH_RECORDS or sizes[script] + size > BATCH_BYTES):
            arguments, positions = kinds.pop(script)
            yield Call(script, arguments), positions
        arguments, positions = kinds.setdefault(script, ([], []))
        arguments += settlement.arguments()
        positions.append(position)
        sizes[script] = size + (sizes[script] if len(positions) > 1 else 0)
    for script, (arguments, positions) in kinds.items():
        yield Call(script, arguments), positions


def _claimed(reply: list[Any], deadline: float) -> Claimed:
    if reply[0] == b"STALE":
        return Claimed((), None, stale=True)
    now, next_due_ms, *rest = reply
    leases = [_lease(rest[start : start + 7], int(now), deadline) for start in range(0, len(rest), 7)]
    return Claimed(leases, _milliseconds(next_due_ms))


def _lease(group: list[Any], claimed_at: int, deadline: float, cancel_requested: bool = False) -> Lease:
    record_id, queue, token, attempts, releases, unknown_ms, task = group
    return Lease(
        record_id.decode(),
        queue.decode(),
        int(token),
        int(attempts),
        int(releases),
        _milliseconds(unknown_ms),
        task,
        claimed_at,
        deadline,
        cancel_requested,
    )


def _milliseconds(value: int) -> int | None:
    """Return a duration from a script, in which -1 stands for none."""
    return None if int(value) < 0 else int(value)


def _groups(reply: list[Any], size: int) -> Iterator[list[Any]]:
    return (reply[start : start + size] for start in range(0, len(reply), size))
