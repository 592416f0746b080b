"""The leases that a child holds, in memory that it shares with its supervisor.

One board belongs to one child. It has a header of 64-bit numbers and a fixed number of slots, one for each lease::

    header    loops     moves every second or so while the child's main loop and its event loop are alive
              nonce     of the last claim, written before that is sent
              ready     1 once the child can claim
              idle      0, or after an empty claim with nothing in hand a number that no other such claim has
              retiring  1 once the child claims no more
              done      1 once it has left its main loop, with nothing in hand
    slot      state     FREE, CLAIMED, BEGUN or ENDED
              record    token, attempt, id and queue of the lease
              began     when the run began
              limit     when its time limit ends, 0 for none
              renewal   deadline of the last renewal, and the token that it belongs to
              lost      token of the lease that was found to be another's
              cancel    token of the lease that was asked to end

All moments are those of `time.monotonic`, which processes of one machine share. Each field has one writer: `renewal`,
`lost` and `cancel` are the supervisor's and name the token that they are about, so one that comes late says nothing
about the slot's next lease. The rest is the child's. A record is written while its slot is free, between two steps of
the slot's sequence number, so a reader sees when it read parts of two records, and never waits for a writer that died.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import RawArray
from typing import Any, Literal, NamedTuple

from ..broker.records import Lease

FREE, CLAIMED, BEGUN, ENDED = range(4)

_HEADER = ("loops", "nonce", "ready", "idle", "retiring", "done")
_RECORD = struct.Struct("<qiBB63s100s")
#: Bytes from one record to the next.
_STRIDE = 184
#: Arrays of one 8-byte number for each slot.
_NUMBERS: tuple[tuple[str, Literal["Q", "q", "d"]], ...] = (
    ("sequence", "Q"),
    ("began", "d"),
    ("limit", "d"),
    ("renewed", "q"),
    ("deadline", "d"),
    ("lost", "q"),
    ("cancel", "q"),
)


class Held(NamedTuple):
    """A lease as it stands on a board."""

    slot: int
    id: str
    queue: str
    token: int
    attempt: int
    state: int
    began: float


class _Number:
    """A number of the header."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._index = _HEADER.index(name)

    def __get__(self, board: Board, owner: type | None = None) -> int:
        return int(board._header[self._index])

    def __set__(self, board: Board, value: int) -> None:
        board._header[self._index] = value


class Board:
    """Fixed slots in shared memory; pickled, it stands for the same memory."""

    loops = _Number()
    nonce = _Number()
    ready = _Number()
    idle = _Number()
    retiring = _Number()
    done = _Number()

    _sequence: memoryview[int]
    _began: memoryview[float]
    _limit: memoryview[float]
    _renewed: memoryview[int]
    _deadline: memoryview[float]
    _lost: memoryview[int]
    _cancel: memoryview[int]

    def __init__(self, slots: int, memory: Any = None) -> None:
        self.slots = slots
        number_bytes = 8 * slots
        size = 8 * len(_HEADER) + len(_NUMBERS) * number_bytes + slots * _STRIDE + slots
        self.memory = RawArray("B", size) if memory is None else memory
        view = memoryview(self.memory).cast("B")
        position = 8 * len(_HEADER)
        self._header = view[:position].cast("Q")
        for name, kind in _NUMBERS:
            setattr(self, f"_{name}", view[position : position + number_bytes].cast(kind))
            position += number_bytes
        self._records = view[position : position + slots * _STRIDE]
        self._states = view[position + slots * _STRIDE :]

    def __reduce__(self) -> tuple[Callable[..., Board], tuple[int, Any]]:
        return Board, (self.slots, self.memory)

    # What the child writes.

    def occupy(self, slot: int, lease: Lease | Held) -> None:
        """Enter a lease that was claimed and hasn't begun."""
        record_id, queue = lease.id.encode(), lease.queue.encode()
        self._sequence[slot] += 1
        self._limit[slot] = self._began[slot] = 0.0
        _RECORD.pack_into(
            self._records, slot * _STRIDE, lease.token, lease.attempt, len(record_id), len(queue), record_id, queue
        )
        self._sequence[slot] += 1
        self._states[slot] = CLAIMED

    def begin(self, slot: int) -> None:
        self._began[slot] = time.monotonic()
        self._states[slot] = BEGUN

    def end(self, slot: int) -> None:
        """Note that the task has ended; its lease is held until it is settled."""
        self._states[slot] = ENDED

    def clear(self, slot: int) -> None:
        self._states[slot] = FREE

    def limit(self, slot: int, moment: float) -> None:
        """Note when the time limit of a run ends; 0 when it has none any more."""
        self._limit[slot] = moment

    # What the child reads.

    def is_lost(self, slot: int, lease: Lease) -> bool:
        """Tell whether a lease is known to be another's, or may be, since nobody renewed it in time."""
        if self._lost[slot] == lease.token:
            return True
        renewed = self._renewed[slot] == lease.token
        return time.monotonic() >= (self._deadline[slot] if renewed else lease.deadline)

    def is_cancelled(self, slot: int, lease: Lease) -> bool:
        return self._cancel[slot] == lease.token

    # What the supervisor reads and writes.

    def leases(self) -> list[Held]:
        """Return all leases on the board."""
        return [held for slot, state in enumerate(bytes(self._states)) if state and (held := self._read(slot))]

    def holds(self, held: Held) -> bool:
        """Tell whether a lease is still on the board, and not only waiting to be settled."""
        now = self._read(held.slot)
        return now is not None and now.token == held.token and now.id == held.id and now.state != ENDED

    def renewed(self, held: Held, deadline: float) -> None:
        """Note that a lease now holds until `deadline`."""
        self._renewed[held.slot] = 0
        self._deadline[held.slot] = deadline
        self._renewed[held.slot] = held.token

    def lose(self, held: Held) -> bool:
        """Note that a lease is another's; tell whether that is news."""
        known = self._lost[held.slot] == held.token
        self._lost[held.slot] = held.token
        return not known

    def ask_to_cancel(self, held: Held) -> None:
        self._cancel[held.slot] = held.token

    def overdue(self, moment: float) -> Iterator[Held]:
        """Return the runs whose time limit ended before `moment`."""
        for slot, limit in enumerate(self._limit.tolist()):
            if 0 < limit < moment and (held := self._read(slot)) and held.state == BEGUN and self._limit[slot] == limit:
                yield held

    @property
    def is_empty(self) -> bool:
        return not any(bytes(self._states))

    def _read(self, slot: int) -> Held | None:
        """Return the lease in a slot, or None; a record that changed meanwhile is read again."""
        while (state := self._states[slot]) != FREE:
            before, began = self._sequence[slot], self._began[slot]
            token, attempt, id_bytes, queue_bytes, record_id, queue = _RECORD.unpack_from(self._records, slot * _STRIDE)
            if self._sequence[slot] == before and before % 2 == 0:
                return Held(
                    slot, record_id[:id_bytes].decode(), queue[:queue_bytes].decode(), token, attempt, state, began
                )
        return None
