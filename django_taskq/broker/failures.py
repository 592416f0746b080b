"""What redis-py raises, as the errors of `exceptions`."""

from __future__ import annotations

import re
from typing import Any

from redis import exceptions as errors

from .exceptions import BrokerError, BrokerUnavailable, ConfigurationError, OutOfMemory, TaskqError

_UNAVAILABLE = {
    "LOADING", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "UNBLOCKED"
}  # fmt: skip
#: Those whose code redis-py takes away. A MovedError is an AskError.
_NOT_NOW = (
    errors.BusyLoadingError,
    errors.ReadOnlyError,
    errors.ClusterDownError,
    errors.AskError,
    errors.TryAgainError,
)
_REFUSED = {"NOAUTH", "WRONGPASS", "NOPERM"}
#: Settings that are wrong, which have no code of their own.
_MISCONFIGURED = re.compile(r"AUTH <password> called|no password is set|unauthenticated|DB index is out of range")
#: No connection was left in our own pool.
_POOL_IS_EMPTY = "Too many connections"
#: The node isn't the master any more: a new connection finds the one that is.
_DEMOTED = {"READONLY", "UNBLOCKED"}
#: The other end may have vanished, and that of each idle connection with it.
_SILENT = errors.TimeoutError
#: What the error of a script names that failed on its way; what it had written by then stays.
_IN_SCRIPT = "@user_script"
#: The code of an error, which Redis 6.2 hides behind its own text when a script met it.
_CODE = re.compile(r"(?:^|: ?-)([A-Z]+) ")
#: What a server that doesn't know AUTH repeats of a password, cut and in its own spelling.
_REPEATED = re.compile(r",? with args beginning with:.*", re.DOTALL)


class translated:
    """Turn what redis-py raises into the errors of `exceptions`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, errors.RedisError | errors.RedisClusterException):
            if isinstance(error, errors.ReadOnlyError | _SILENT) or _code(error) in _DEMOTED:
                _drop_idle_connections(self._client)
            # The cause is shown, too.
            error.args = tuple(_REPEATED.sub("", each) if isinstance(each, str) else each for each in error.args)
            raise _translation(error) from error


def _drop_idle_connections(client: Any) -> None:
    drop = getattr(client, "drop_idle_connections", None)
    if drop is not None:
        drop()


def _code(error: Exception) -> str:
    match = _CODE.search(str(error))
    return match[1] if match else ""


def _translation(error: Exception) -> TaskqError:
    text, code = str(error), _code(error)
    refused = errors.AuthenticationError | errors.AuthorizationError | errors.NoPermissionError
    if isinstance(error, refused) or code in _REFUSED or _MISCONFIGURED.search(text):
        return ConfigurationError(f"Redis refuses us: {text}", maybe_executed=_IN_SCRIPT in text)
    # These two meet a script at its first write, if at all.
    if isinstance(error, errors.OutOfMemoryError) or code == "OOM":
        return OutOfMemory(f"Redis is at its maxmemory: {text}")
    if isinstance(error, _NOT_NOW) or code in _UNAVAILABLE:
        return BrokerUnavailable(text, maybe_executed=False)
    if isinstance(error, errors.ConnectionError | errors.TimeoutError | errors.RedisClusterException):
        unsent = getattr(error, "unsent", False) or _POOL_IS_EMPTY in text
        return BrokerUnavailable(text, maybe_executed=not unsent)
    is_answer = isinstance(error, errors.ResponseError)
    return BrokerError(text, maybe_executed=not is_answer or _IN_SCRIPT in text)
