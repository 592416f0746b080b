"""Each kind of URL leads to a server on which everything works."""

from __future__ import annotations

import subprocess
import time

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerUnavailable, ConfigurationError
from django_taskq.broker.settlements import Complete
from tests import servers
from tests.broker.helpers import claim, lapse, put, record, request
from tests.redis import topologies
from tests.redis.flow import main_flow
from tests.redis.proxy import Proxy, calls_of
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _close_clients():
    yield
    clients.close_all()


@pytest.fixture(scope="module")
def start_server():
    """Start servers that stay for the module."""
    started = []

    def start(*options):
        found = servers.binaries()
        binary = found["redis"] or found["valkey"]
        if binary is None:
            pytest.skip("no server is installed")
        started.append(servers.Server(binary, *options).start())
        return started[-1]

    yield start
    for server in started:
        server.close()


def test_redis(redis_server, redis_client):
    broker = Broker.from_url(redis_server.url)
    main_flow(broker, broker)


def test_another_database_and_the_socket(redis_server):
    broker = Broker.from_url(redis_server.unix_url.replace("db=0", "db=3"))
    main_flow(broker, broker)
    with redis_server.client() as client:
        assert client.dbsize() == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=taskq"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl is installed")
    return folder


class TestTls:
    @pytest.fixture
    def port(self, new_server, certificate):
        port = servers.free_port()
        options = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", certificate / "cert.pem"]
        options += ["--tls-cert-file", certificate / "cert.pem", "--tls-key-file", certificate / "key.pem"]
        try:
            new_server(*map(str, options))
        except RuntimeError as error:
            if "TLS" not in str(error):
                raise
            pytest.skip("this server is built without TLS")
        return port

    def test_rediss(self, port, certificate):
        broker = Broker.from_url(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate / 'cert.pem'}")
        main_flow(broker, broker)

    def test_a_certificate_that_nobody_vouches_for_is_refused(self, port):
        with pytest.raises(BrokerUnavailable, match="certificate") as caught:
            put(Broker.from_url(f"rediss://127.0.0.1:{port}/0"))
        assert not caught.value.maybe_executed

    def test_it_can_be_taken_all_the_same(self, port):
        url = f"rediss://127.0.0.1:{port}/0?ssl_cert_reqs=none&ssl_check_hostname=false"
        assert put(Broker.from_url(url))


@pytest.fixture(scope="module")
def watched(start_server):
    """Start a master, its replica and three sentinels."""
    master = start_server("--repl-diskless-sync-delay", "0")
    replica = start_server("--repl-diskless-sync-delay", "0", "--replicaof", f"127.0.0.1 {master.port}")
    sentinels = topologies.Sentinels(master.binary, master, replicas=1)
    yield master, replica, sentinels
    sentinels.close()


class TestSentinel:
    def test_a_service_that_nobody_watches_is_unavailable_and_nothing_was_sent(self, watched):
        with pytest.raises(BrokerUnavailable, match="other") as caught:
            put(Broker.from_url(f"sentinel://{watched[2].hosts}/other/0"))
        assert not caught.value.maybe_executed

    def test_sentinel_and_its_failover(self, watched):
        master, replica, sentinels = watched
        broker = Broker.from_url(f"sentinel://{sentinels.hosts}/mymaster/0")
        main_flow(broker, broker)
        put(broker, queue="later")
        assert broker.client.wait(1, 5000) == 1
        master.stop()
        failures = []

        def works():
            try:
                return put(broker, queue="later")
            except BrokerUnavailable as error:
                failures.append(error)

        wait_until(works, timeout=20)
        assert failures
        with replica.client() as client:
            assert client.role()[0] == b"master"
        assert len(claim(broker, 5, queues=["later"]).leases) == 2
        assert broker.wait(["later"], 0.02) in ("later", None)


def test_sentinels_that_are_not_there_are_unavailable():
    with pytest.raises(BrokerUnavailable) as caught:
        put(Broker.from_url(f"sentinel://127.0.0.1:{servers.free_port()}/mymaster"))
    assert not caught.value.maybe_executed


@pytest.fixture(scope="module")
def nodes(start_server):
    return topologies.cluster(start_server)


class TestCluster:
    @pytest.fixture
    def broker(self, nodes):
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes[:2])
        return Broker.from_url(f"redis+cluster://{hosts}")

    @pytest.mark.parametrize("namespace", ["taskq", "a", "b", "c"])
    def test_c37_every_transition_works_on_a_cluster(self, broker, nodes, namespace):
        broker = Broker(broker.client, namespace, clients.connect_waiting(f"redis+cluster://127.0.0.1:{nodes[2].port}"))
        main_flow(broker, broker)
        sizes = [_dbsize(node) for node in nodes]
        assert sum(size > 0 for size in sizes) >= 1

    def test_c37_a_namespace_is_in_one_slot(self, nodes):
        broker = Broker.from_url(f"redis+cluster://127.0.0.1:{nodes[0].port}", "one slot")
        before = [_dbsize(node) for node in nodes]
        put(broker, 20, key=None)
        broker.exchange([], request(5))
        assert sum(size > old for size, old in zip([_dbsize(node) for node in nodes], before, strict=True)) == 1

    def test_a_node_that_does_not_have_the_slot_sends_us_on(self, broker, nodes):
        slot = broker.client.keyslot(broker.keys.queues)
        owner = broker.client.nodes_manager.get_node_from_slot(slot)
        wrong = next(node for node in broker.client.get_primaries() if node != owner)
        broker.client.nodes_manager.slots_cache[slot] = [wrong]
        put(broker, 2, queue="moved")
        (lease,) = claim(broker, queues=["moved"]).leases
        broker.client.nodes_manager.slots_cache[slot] = [wrong]
        words, claimed = broker.exchange([_complete(lease)], request(1, ["moved"]))
        assert words == ["DONE"]
        assert len(claimed.leases) == 1

    def test_an_error_of_one_script_in_a_pipeline_leaves_the_cluster(self, broker):
        lease = _Held()
        with pytest.raises(Exception, match="integer"):
            broker.run("enqueue", ["A", "q", "x", 0, 0, "", b""])
        assert broker.exchange([_complete(lease)], request(1, ["none"]))[0] == ["LEASE_LOST"]


def _dbsize(node):
    with node.client() as client:
        return client.dbsize()


class _Held:
    id, queue, token = "A", "q", 5


def _complete(lease):
    return Complete(lease, b"{}")


def test_a_cluster_that_is_not_there_is_unavailable_when_first_used():
    broker = Broker.from_url(f"redis+cluster://127.0.0.1:{servers.free_port()}")
    for _ in range(2):
        with pytest.raises(BrokerUnavailable) as caught:
            put(broker)
        assert not caught.value.maybe_executed


def test_a_server_that_is_no_cluster_is_told_clearly(redis_server):
    with pytest.raises((BrokerUnavailable, ConfigurationError), match=r"(?i)cluster"):
        put(Broker.from_url(redis_server.url.replace("redis://", "redis+cluster://").removesuffix("/0")))


@pytest.fixture(scope="module")
def proxied_node(start_server):
    """Start a cluster of one node that tells its clients a proxy's address."""
    proxy = Proxy(0)
    announced = {"cluster_announce_ip": "127.0.0.1", "cluster_announce_port": str(proxy.port)}
    (proxy.node,) = topologies.cluster(start_server, masters=1, **announced)
    proxy.target = proxy.node.port
    yield proxy
    proxy.close()


class TestClusterResend:
    @pytest.fixture
    def proxy(self, proxied_node, monkeypatch):
        monkeypatch.setattr(clients, "SOCKET_TIMEOUT", 0.8)
        return proxied_node

    @pytest.mark.parametrize("how", ["cut", "hang"])
    def test_nothing_is_sent_twice_to_a_cluster(self, proxy, how):
        broker = Broker(clients.connect(f"redis+cluster://127.0.0.1:{proxy.port}", 0.8))
        put(broker, 3)
        (lease,) = claim(broker).leases
        broker.exchange([_complete(_Held())], request(0))
        for call, executions in (
            (lambda: broker.enqueue([record()]), 1),
            (lambda: broker.exchange([_complete(lease)], request(1)), 2),
        ):
            before = calls_of(proxy.node, "evalsha")
            proxy.lose_reply_to(b"EVALSHA", how)
            with pytest.raises(BrokerUnavailable) as caught:
                call()
            assert caught.value.maybe_executed
            assert calls_of(proxy.node, "evalsha") - before == executions
        assert broker.complete(lease, b"{}") == "ALREADY"
        lapse(broker, *claim(broker, 5).leases)

    def test_a_node_that_comes_back_is_used_again(self, proxy):
        broker = Broker(clients.connect(f"redis+cluster://127.0.0.1:{proxy.port}", 0.8))
        put(broker)
        proxy.node.stop()
        proxy.cut()
        for call in (lambda: put(broker), lambda: broker.exchange([_complete(_Held())], request())):
            begun = time.monotonic()
            with pytest.raises(BrokerUnavailable):
                call()
            assert time.monotonic() - begun < 5
        proxy.node.start()
        with proxy.node.client() as client:
            wait_until(lambda: b"cluster_state:ok" in _raw(client) or None)

        def works():
            try:
                return put(broker)
            except BrokerUnavailable:
                return None

        wait_until(works)


def _raw(client):
    text = client.execute_command("CLUSTER INFO")
    return text if isinstance(text, bytes) else "".join(f"{k}:{v}\n" for k, v in text.items()).encode()
