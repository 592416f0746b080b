"""Sentinels and clusters for the tests, made of the servers in tests/servers.py."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable

import redis

from tests import servers
from tests.waiting import wait_until

SLOTS = 16384
NewServer = Callable[..., servers.Server]


def cluster(new_server: NewServer, masters: int = 3, **options: str) -> list[servers.Server]:
    """Start a cluster of masters and return its nodes when all of them see it whole."""
    nodes = []
    for _ in range(masters):
        bus = str(servers.free_port())
        extra = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        nodes.append(new_server("--cluster-enabled", "yes", "--cluster-port", bus, *extra))
        nodes[-1].bus_port = bus
    clients = [node.client() for node in nodes]
    for index, client in enumerate(clients):
        first, last = SLOTS * index // masters, SLOTS * (index + 1) // masters
        client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
    for node in nodes[1:]:
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
    for client in clients:
        wait_until(lambda client=client: _sees(client, masters), what="a whole cluster")
        client.close()
    return nodes


def _sees(client: redis.Redis, masters: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    if isinstance(info, bytes):
        info = dict(line.split(":") for line in info.decode().split("\r\n") if ":" in line)
    return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == masters


class Sentinels:
    """Three sentinels that watch a master under the name `mymaster`."""

    def __init__(self, binary: str, master: servers.Server, replicas: int) -> None:
        self.ports = [servers.free_port() for _ in range(3)]
        self._folder = tempfile.TemporaryDirectory(prefix="taskq-sentinels-")
        self._processes = [self._start(binary, port, master.port) for port in self.ports]
        for port in self.ports:
            with redis.Redis(port=port, retry=None) as client:
                wait_until(lambda client=client: _agrees(client, replicas), timeout=60, what="sentinels that agree")

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def _start(self, binary: str, port: int, master: int) -> subprocess.Popen[bytes]:
        path = os.path.join(self._folder.name, f"{port}.conf")
        with open(path, "w") as file:
            file.write(
                f"port {port}\nbind 127.0.0.1\ndir {self._folder.name}\n"
                f"sentinel monitor mymaster 127.0.0.1 {master} 2\n"
                "sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 3000\n"
            )
        with open(path.replace(".conf", ".log"), "wb") as log:
            return subprocess.Popen(
                [binary, path, "--sentinel"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=servers.die_with_parent,
            )

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(timeout=10)
        self._folder.cleanup()


def _agrees(client: redis.Redis, replicas: int) -> bool:
    try:
        found = client.sentinel_masters()["mymaster"]
    except redis.RedisError:
        return False
    return found["num-slaves"] == replicas and found["num-other-sentinels"] == 2 and not found["is_disconnected"]
