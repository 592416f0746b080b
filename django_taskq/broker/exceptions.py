"""What can go wrong between a client and the queue.

::

    TaskqError
    ├── InvalidName (ValueError)     a namespace, queue, key, id or worker name that the protocol refuses
    ├── UnreadableRecord             what Redis holds is no envelope
    │   └── UnknownVersion           it is one, of a version that is newer than this release
    ├── RequestError
    │   ├── ConfigurationError       the URL, the password or the rights are wrong; waiting won't help
    │   ├── BrokerError              Redis refused a request
    │   │   └── OutOfMemory          it is at its maxmemory; nothing was stored
    │   └── BrokerUnavailable        Redis didn't answer, or can't serve now
    └── EnqueueError                 a task that was accepted could not be stored
"""

from __future__ import annotations

from collections.abc import Sequence


class TaskqError(Exception):
    """Something went wrong in the task queue."""


class InvalidName(TaskqError, ValueError):
    """This name can't be used in the queue."""


class UnreadableRecord(TaskqError):
    """The stored record can't be decoded."""


class UnknownVersion(UnreadableRecord):
    """The stored record has a newer version than this release can read."""


class RequestError(TaskqError):
    """A request failed; `maybe_executed` says whether it, or a part of it, may have been carried out all the same."""

    def __init__(self, message: str, *, maybe_executed: bool = False) -> None:
        super().__init__(message)
        self.maybe_executed = maybe_executed


class ConfigurationError(RequestError):
    """The connection to Redis is set up wrongly."""


class BrokerError(RequestError):
    """Redis refused the request, or a script failed."""


class OutOfMemory(BrokerError):
    """Redis has reached its maxmemory and stores nothing new."""


class BrokerUnavailable(RequestError):
    """Redis can't be reached now."""

    def __init__(self, message: str, *, maybe_executed: bool) -> None:
        super().__init__(message, maybe_executed=maybe_executed)


class EnqueueError(TaskqError):
    """Redis didn't confirm that it has stored tasks.

    `ids` names them; with `maybe_stored` some may be in the queue all the same. Enqueuing a record
    again under its id does nothing when it is there.
    """

    def __init__(self, ids: Sequence[str], *, maybe_stored: bool, cause: object) -> None:
        self.ids = tuple(ids)
        self.maybe_stored = maybe_stored
        what = "it" if len(self.ids) == 1 else "some"
        outcome = f"{what} may have been stored" if maybe_stored else "nothing was stored"
        shown = ", ".join(self.ids[:3]) + (f" and {len(self.ids) - 3} more" if len(self.ids) > 3 else "")
        super().__init__(f"Could not enqueue {shown}: {cause} ({outcome})")
