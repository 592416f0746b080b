"""What Redis answers instead of a reply, as the broker's own errors; none of redis-py's leaves it."""

from __future__ import annotations

import os
import threading
import traceback

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import BrokerError, BrokerUnavailable, ConfigurationError, OutOfMemory, TaskqError
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.settlements import Complete
from tests import servers
from tests.broker.helpers import claim, put, record, request
from tests.redis.proxy import Answering
from tests.waiting import wait_until

SCRIPT_7 = " script: 5d0b7b, on @user_script:12."
SCRIPT_6 = "ERR Error running script (call to f_5d0b7b): @user_script:12: @user_script: 12: -{} "
TEXTS = {
    "OOM command not allowed when used memory > 'maxmemory'.": OutOfMemory,
    "LOADING Redis is loading the dataset in memory": BrokerUnavailable,
    "READONLY You can't write against a read only replica.": BrokerUnavailable,
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": BrokerUnavailable,
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist.": BrokerUnavailable,
    "NOREPLICAS Not enough good replicas to write.": BrokerUnavailable,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": BrokerUnavailable,
    "CLUSTERDOWN Hash slot not served": BrokerUnavailable,
    "TRYAGAIN Multiple keys request during rehashing of slot": BrokerUnavailable,
    "NOPERM User app has no permissions to run the 'zadd' command": ConfigurationError,
    "NOAUTH Authentication required.": ConfigurationError,
    "WRONGPASS invalid username-password pair or user is disabled.": ConfigurationError,
    "ERR DB index is out of range": ConfigurationError,
    "ERR AUTH <password> called without any password configured for the default user.": ConfigurationError,
    "WRONGTYPE Operation against a key holding the wrong kind of value": BrokerError,
    "ERR unknown command": BrokerError,
}


@pytest.fixture(autouse=True)
def _close_clients():
    yield
    clients.close_all()


@pytest.fixture
def answering():
    started = []

    def start(command, line):
        started.append(Answering(command, line))
        return Broker.from_url(started[-1].url)

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("ending", ["", SCRIPT_7])
@pytest.mark.parametrize("text", TEXTS)
def test_an_error_reply_is_told_by_its_code(answering, text, ending):
    broker = answering(b"EVALSHA", f"-{text}{ending}".encode())
    for call in (lambda: broker.enqueue([record()]), lambda: broker.exchange([Complete(_Lease, b"{}")], request())):
        with pytest.raises(TaskqError) as caught:
            call()
        assert type(caught.value) is TEXTS[text]
        # A script may have failed after its first write, but for those that are refused there.
        assert caught.value.maybe_executed is (ending == SCRIPT_7 and TEXTS[text] in (BrokerError, ConfigurationError))


@pytest.mark.parametrize("text", [text for text, error in TEXTS.items() if error in (OutOfMemory, BrokerUnavailable)])
def test_it_is_told_when_redis_6_hides_it_behind_its_own(answering, text):
    broker = answering(b"EVALSHA", b"-" + SCRIPT_6.format(text).encode())
    with pytest.raises(TEXTS[text]) as caught:
        broker.enqueue([record()])
    assert not caught.value.maybe_executed


@pytest.mark.parametrize("kind", [name for name in servers.chosen_names() if name != "fakeredis"])
def test_of_a_script_that_failed_a_part_may_have_been_done(kind):
    """It wrote the task, and then met a queue that is none."""
    binary = servers.binaries()[kind]
    if binary is None:
        pytest.skip(f"no {kind} is installed")
    server = servers.Server(binary).start()
    try:
        broker, new = Broker.from_url(server.url), record(queue="q")
        broker.client.set(broker.keys.ready("q"), "no set")
        with pytest.raises(BrokerError, match="WRONGTYPE") as caught:
            broker.enqueue([new])
        assert caught.value.maybe_executed
        assert broker.client.exists(broker.keys.task(new.id))
    finally:
        server.close()


def test_what_a_script_refuses_before_it_writes_is_not_done(broker):
    with pytest.raises(BrokerError, match="ID must be") as caught:
        broker.run("enqueue", ["no id", "q", 0, 0, 0, "", b"{}"])
    assert not caught.value.maybe_executed
    assert broker.client.dbsize() == 0


def test_a_refused_wait_is_told_too(answering):
    broker = answering(b"BZPOPMIN", b"-UNBLOCKED force unblock from blocking operation, instance state changed")
    with pytest.raises(BrokerUnavailable) as caught:
        broker.wait(["q"], 0.1)
    assert not caught.value.maybe_executed


def test_a_reply_that_is_no_reply_is_an_error_of_ours(answering):
    with pytest.raises(TaskqError):
        answering(b"EVALSHA", b"HTTP/1.1 400 Bad Request").enqueue([record()])


class _Lease:
    id, queue, token = "A", "q", 5


def with_login(url, login):
    return url.replace("://", f"://{login}@", 1)


class TestLogin:
    @pytest.fixture
    def guarded(self, redis_server):
        with redis_server.client() as client:
            client.acl_setuser("app", enabled=True, passwords=["+right"], keys=["*"], commands=["+@all"])
            client.acl_setuser("poor", enabled=True, passwords=["+right"], keys=["*"], commands=["+ping", "+select"])
            yield redis_server
            client.acl_deluser("app", "poor")

    @pytest.mark.parametrize("login", ["app:s3cr3t", ":s3cr3t", "nobody:s3cr3t"])
    def test_a_wrong_password_is_a_matter_of_configuration_and_not_shown(self, guarded, login):
        for call in (lambda broker: broker.enqueue([record()]), lambda broker: broker.wait(["q"], 0.1), Broker.ping):
            with pytest.raises(ConfigurationError) as caught:
                call(Broker.from_url(with_login(guarded.url, login)))
            assert "s3cr3t" not in str(caught.value)

    @pytest.mark.parametrize("login", [":s3cr3t", ":s3cr3t" + "x" * 200, ":s3cr3t%0D%0As3cr3t"])
    def test_a_password_that_a_server_without_auth_repeats_is_not_shown(self, new_server, login):
        server = new_server("--rename-command", "AUTH", "LOGIN")
        with pytest.raises(BrokerError, match="unknown command 'AUTH'") as caught:
            Broker.from_url(with_login(server.url, login)).ping()
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
        server.stop()

    def test_missing_rights_are_a_matter_of_configuration(self, guarded):
        broker = Broker.from_url(with_login(guarded.url, "poor:right"))
        broker.ping()
        for call in (lambda: broker.enqueue([record()]), lambda: broker.wait(["q"], 0.1), Inspector(broker).queues):
            with pytest.raises(ConfigurationError, match="no permissions"):
                call()

    def test_the_right_login_works(self, guarded):
        assert put(Broker.from_url(with_login(guarded.url, "app:right")))

    def test_a_database_that_does_not_exist_is_a_matter_of_configuration(self, redis_server):
        with pytest.raises(ConfigurationError):
            Broker.from_url(redis_server.url.removesuffix("/0") + "/99").ping()

    def test_a_password_that_is_asked_for_is_a_matter_of_configuration(self, new_server):
        server = new_server()
        with server.client() as client:
            client.config_set("requirepass", "right")
        with pytest.raises(ConfigurationError, match="refuses us"):
            Broker.from_url(server.unix_url).enqueue([record()])
        assert put(Broker.from_url(with_login(server.url, ":right")))
        server.stop()


def test_a_server_that_loads_its_data_is_unavailable_until_it_has(new_server):
    server = new_server("--dbfilename", "d.rdb")
    with server.client() as client:
        client.mset({f"k{index}": os.urandom(300) for index in range(30)})
        client.save()
    server.stop()
    server.options += ("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
    server.start()
    broker = Broker.from_url(server.unix_url)
    with pytest.raises(BrokerUnavailable, match="loading") as caught:
        broker.enqueue([record()])
    assert not caught.value.maybe_executed
    wait_until(lambda: _works(lambda: broker.enqueue([record()])))


def _works(call):
    try:
        return call()
    except BrokerUnavailable:
        return False


def test_a_server_busy_with_another_s_script_is_unavailable_until_it_is_free(new_server):
    server = new_server()
    broker = Broker.from_url(server.unix_url)
    put(broker)
    with server.client() as client, server.client() as other:
        client.config_set("lua-time-limit", 1)
        spinning = threading.Thread(target=_ignore_errors, args=(other.eval, "while true do end", 0))
        spinning.start()
        wait_until(lambda: not _works(lambda: broker.enqueue([record()])) or None)
        with pytest.raises(BrokerUnavailable, match=r"busy|BUSY") as caught:
            broker.claim(request())
        assert not caught.value.maybe_executed
        client.script_kill()
        spinning.join()
    assert claim(broker).leases


def _ignore_errors(call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        assert "killed" in str(error)  # noqa: PT017


class TestServerWarnings:
    @pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru"])
    def test_c31_an_eviction_policy_that_loses_tasks_is_named(self, new_server, policy):
        server = new_server("--maxmemory-policy", policy)
        (warning,) = Broker.from_url(server.unix_url).server_warnings()
        assert repr(policy) in warning
        assert "'noeviction'" in warning

    def test_c31_a_server_as_it_should_be_has_no_warning(self, redis_url):
        assert Broker.from_url(redis_url).server_warnings() == []

    @pytest.mark.parametrize("denied", [["-config"], ["-info"], ["-config", "-info"]])
    def test_c31_a_server_that_may_not_be_asked_is_no_error(self, redis_server, denied):
        with redis_server.client() as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.acl_setuser("app", enabled=True, nopass=True, keys=["*"], commands=["+@all", *denied])
            warnings = Broker.from_url(with_login(redis_server.url, "app:x")).server_warnings()
            client.acl_deluser("app")
            client.config_set("maxmemory-policy", "noeviction")
        assert len(warnings) == (2 - len(denied) > 0)

    def test_c31_fakeredis_is_no_error(self):
        import fakeredis

        assert Broker(fakeredis.FakeStrictRedis()).server_warnings() == []
