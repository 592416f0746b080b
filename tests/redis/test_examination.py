"""What is found out about a server, and what is said where it doesn't let itself be asked."""

from __future__ import annotations

import time

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker import examination, scripts
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable
from tests import servers
from tests.redis import topologies
from tests.redis.test_acl import COMMON, set_user, url_of

REAL = [name for name in servers.chosen_names() if name != "fakeredis"]


@pytest.fixture(autouse=True)
def _close_clients():
    yield
    clients.close_all()


@pytest.fixture
def own(new_server):
    """Give a function that starts a server with some options and a broker of it."""

    def start(*options):
        return Broker.from_url(new_server(*options).url)

    return start


def found(broker):
    """Return each finding by its subject."""
    findings = [*examination.examine(broker)]
    assert len({finding.subject for finding in findings}) == len(findings)
    assert all(bool(finding.advice) == (finding.level != "OK") for finding in findings)
    return {finding.subject: finding for finding in findings}


def levels(broker):
    return {subject: str(finding.level) for subject, finding in found(broker).items()}


@pytest.mark.parametrize("name", REAL)
def test_a_server_as_it_should_be_has_nothing_to_mend(name):
    binary = servers.binaries()[name]
    if binary is None:
        pytest.skip(f"no {name} is installed")
    server = servers.Server(binary, "--appendonly", "yes").start()
    try:
        assert levels(Broker.from_url(server.url)) == dict.fromkeys(
            ("version", "eviction", "memory", "persistence", "scripts", "clock"), "OK"
        )
        with server.client() as client:
            assert client.keys() == []
    finally:
        server.close()


@pytest.mark.parametrize(("policy", "lost"), [("allkeys-lru", "tasks"), ("volatile-lru", "idempotency keys")])
def test_c31_an_evicting_policy_is_named_with_what_it_costs(own, policy, lost):
    finding = found(own("--maxmemory-policy", policy))["eviction"]
    assert (finding.level, repr(policy) in finding.text, lost in finding.text) == ("WARN", True, True)
    assert "noeviction" in finding.advice


@pytest.mark.parametrize(
    ("info", "settings", "level", "said"),
    [
        ({"aof_enabled": 1}, (None, None), "OK", "is on"),
        ({"aof_enabled": 0}, ("no", ""), "WARN", "every task is lost"),
        ({"aof_enabled": 0}, ("no", "3600 1"), "WARN", "only snapshots"),
        ({"aof_enabled": 0}, (None, None), "WARN", "file is off"),
        ({}, (None, None), "WARN", "refuses INFO and CONFIG"),
        ({}, ("yes", ""), "OK", "is on"),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, ("yes", ""), "FAIL", "can't be written"),
        ({"aof_enabled": 0, "rdb_last_bgsave_status": "err"}, ("no", "3600 1"), "WARN", "snapshot couldn't"),
    ],
)
def test_persistence_is_judged_by_what_a_restart_would_lose(info, settings, level, said):
    finding = examination._persistence(info, *settings)
    assert (finding.level, said in finding.text) == (level, True)


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"redis_version": "6.0.16"}, "FAIL"),
        ({"redis_version": "6.2.0"}, "OK"),
        ({"redis_version": "8.4.0"}, "OK"),
        ({"redis_version": "9.0.0"}, "WARN"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, "WARN"),
        ({"redis_version": "7.2.4", "valkey_version": "9.0.1"}, "OK"),
        ({"redis_version": "what"}, "WARN"),
        ({}, "WARN"),
    ],
)
def test_versions_are_those_that_are_tested(info, level):
    assert examination._version(info).level == level


def test_a_nearly_full_memory_is_said(own):
    broker = own()
    broker.client.config_set("maxmemory", broker.client.info("memory")["used_memory"])
    assert levels(broker)["memory"] == "WARN"


def test_a_replica_is_no_place_to_write(own, new_server):
    broker = own("--replicaof", "127.0.0.1", str(new_server().port))
    assert found(broker)["role"].level == "FAIL"


@pytest.mark.parametrize("denied", [["-info"], ["-config"], ["-info", "-config"]])
def test_c31_where_info_and_config_are_refused_it_says_so_and_goes_on(new_server, denied):
    server = new_server("--maxmemory-policy", "allkeys-lru")
    with server.client() as client:
        client.acl_setuser("app", enabled=True, nopass=True, keys=["{taskq}:*"], commands=["+@all", *denied])
    findings = found(Broker.from_url(server.url.replace("://", "://app:x@")))
    assert "allkeys-lru" in findings["eviction"].text or "refuses INFO and CONFIG" in findings["eviction"].text
    assert ("refuses INFO" in findings["version"].text) == ("-info" in denied)
    assert findings["scripts"].level == findings["clock"].level == "OK"
    assert {finding.level for finding in findings.values()} == {"OK", "WARN"}


def test_c37_the_documented_rights_are_enough(new_server):
    server = new_server()
    with server.client() as client:
        set_user(client, [rule for rule in COMMON if rule != "+info"])
        findings = levels(Broker.from_url(url_of(server)))
        assert findings == {
            "version": "WARN",
            "eviction": "WARN",
            "persistence": "WARN",
            "scripts": "OK",
            "clock": "OK",
        }
        denied = {str(entry["object"]).partition("|")[0] for entry in client.acl_log()}
    assert denied <= {"info", "config", "client"}


def test_rights_that_are_missing_are_said(new_server):
    server = new_server()
    with server.client() as client:
        set_user(client, [rule for rule in COMMON if rule not in ("+eval", "+evalsha")])
    findings = found(Broker.from_url(url_of(server)))
    assert findings["scripts"].level == findings["clock"].level == "FAIL"
    assert "eval" in findings["scripts"].text


def test_a_script_that_no_server_can_load_is_named(own, monkeypatch):
    load = scripts.load
    broken = scripts.Script("bury", "local = 1", "")
    monkeypatch.setattr(scripts, "load", lambda name: broken if name == "bury" else load(name))
    finding = found(own())["scripts"]
    assert (finding.level, "bury" in finding.text) == ("FAIL", True)


@pytest.mark.parametrize(("hours", "said"), [(1, "3,600 s behind"), (-1, "3,600 s ahead")])
def test_clocks_that_differ_are_said(own, monkeypatch, hours, said):
    broker, now = own(), time.time
    monkeypatch.setattr(examination.time, "time", lambda: now() + hours * 3600)
    assert said in found(broker)["clock"].text


def test_the_node_that_holds_the_queue_is_the_one_that_is_asked(new_server):
    nodes = {node.port: node for node in topologies.cluster(new_server, masters=3)}
    url = f"redis+cluster://127.0.0.1:{min(nodes)}"
    asked = set()
    for number in range(10):
        broker = Broker.from_url(url, f"n{number}")
        holder = broker.client.get_node_from_key(broker.keys.queues).port
        for port, node in nodes.items():
            with node.client() as client:
                client.config_set("maxmemory-policy", "noeviction" if port == holder else "allkeys-lru")
        assert levels(broker)["eviction"] == "OK"
        asked.add(holder)
    assert len(asked) > 1


def test_without_redis_it_raises():
    with pytest.raises(BrokerUnavailable):
        levels(Broker.from_url(f"redis://127.0.0.1:{servers.free_port()}"))
