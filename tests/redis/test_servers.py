from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.leaks import key_leaks
from tests.waiting import wait_until

STARTS_A_SERVER = """
import sys
from tests.servers import Server, binaries
server = Server(binaries()["valkey"]).start()
print(server.process.pid, flush=True)
sys.stdin.read()
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_server_dies_with_the_process_that_started_it(tmp_path_factory):
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("d"))},
    )
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not is_alive(pid))


def test_a_restarted_server_keeps_its_address(new_server):
    server = new_server()
    before = server.url
    server.stop()
    server.start()
    assert server.url == before


def test_the_project_of_the_tests_uses_the_server_of_redis_url(redis_url, settings):
    assert settings.TASKS["default"]["OPTIONS"]["url"] == redis_url


def test_undelivered_work_with_a_ttl_is_a_leak(server):
    server.client.zadd("{x}:queue:q:ready", {"A": 1})
    server.client.set("{x}:task:A", "", ex=100)
    server.client.set("{x}:idem:k", "A", ex=100)
    assert [leak.split(":")[1:3] for leak in key_leaks(server.client)] == [["idem", "k"], ["task", "A"]]
    server.client.flushall()


def test_ended_work_without_a_ttl_is_a_leak(server):
    server.client.set("{x}:task:A", "")
    server.client.hset("{x}:run:A", mapping={"state": "succeeded"})
    server.client.set("{x}:idem:k", "A")
    server.client.hset("{x}:claim:w.1", mapping={"nonce": 1})
    assert len(key_leaks(server.client)) == 4
    server.client.flushall()


def test_a_key_that_is_not_of_the_protocol_is_a_leak(server):
    server.client.set("other", "1", ex=100)
    assert key_leaks(server.client) == ["other: not a key of the protocol"]
    server.client.flushall()


def test_undelivered_work_and_permanent_keys_are_no_leak(server):
    client = server.client
    client.sadd("{x}:queues", "q")
    client.zadd("{x}:workers", {"w": 1})
    client.zadd("{x}:queue:q:wake", {"1": 1})
    client.zadd("{x}:queue:q:dead", {"A": 1})
    client.zadd("{x}:queue:q:leased", {"B": 1})
    for name in ("A", "B"):
        client.set(f"{{x}}:task:{name}", "")
        client.hset(f"{{x}}:run:{name}", mapping={"state": "x"})
    client.set("{x}:idem:k", "B")
    client.set("{x}:task:C", "alias B", ex=60)
    assert key_leaks(client) == []
