"""A cluster as one server: all keys of a namespace are in one slot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis import exceptions as errors

#: Answers of a node that did not run the command.
_ELSEWHERE = (errors.MovedError, errors.AskError, errors.TryAgainError)


class ClusterClient:
    """A `RedisCluster` that connects when it is first used, and sends nothing twice."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._cluster: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected(), name)

    def _connected(self) -> Any:
        if self._cluster is None:
            with self._lock:
                if self._cluster is None:
                    self._cluster = self._opened()
        return self._cluster

    def _opened(self) -> Any:
        try:
            return self._connect()
        except (errors.RedisError, errors.RedisClusterException) as error:
            error.unsent = True  # type: ignore[union-attr]
            raise

    def send(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands on the node of a key in one round trip; return each one's reply or error.

        `RedisCluster.pipeline` sends again what timed out, so the node's own pipeline is used.
        """
        cluster = self._connected()
        node = cluster.get_node_from_key(key)
        try:
            with cluster.get_redis_connection(node).pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                replies = list(pipeline.execute(raise_on_error=False))
        except (errors.ConnectionError, errors.TimeoutError):
            # The slot may have moved to another node.
            with suppress(errors.RedisError, errors.RedisClusterException):
                cluster.nodes_manager.initialize()
            raise
        for index, reply in enumerate(replies):
            if isinstance(reply, _ELSEWHERE):
                try:
                    replies[index] = cluster.execute_command(*commands[index])
                except errors.ResponseError as error:
                    replies[index] = error
        return replies

    def drop_idle_connections(self) -> None:
        """Close what is idle: the next command finds out who answers."""
        for node in self._cluster.get_nodes() if self._cluster is not None else ():
            if node.redis_connection is not None:
                node.redis_connection.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close its connections, if there are any."""
        if self._cluster is not None:
            self._cluster.close()
