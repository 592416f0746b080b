"""C37: a user who may do only what docs/reference/redis.md says. Keys and commands there are those that are used."""

from __future__ import annotations

import re

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker import scripts
from django_taskq.broker.broker import Broker
from django_taskq.broker.exceptions import ConfigurationError
from tests import servers
from tests.broker.helpers import request
from tests.redis import topologies
from tests.redis.flow import main_flow
from tests.unit.test_imports import ROOT

PAGE = (ROOT / "docs" / "reference" / "redis.md").read_text()
COMMON, CLUSTER = [
    block.removeprefix("ACL SETUSER taskq ").split() for block in re.findall(r"```text\n(ACL.*?)```", PAGE, re.S)
]
#: What scripts ask for, and do without.
SPARED = {"info"}
#: Commands that are sent without a script.
DIRECT = {"ping", "eval", "evalsha", "bzpopmin", "zadd", "smembers", "hgetall"}


@pytest.fixture(autouse=True)
def _close_clients():
    yield
    clients.close_all()


def set_user(client, rules):
    client.execute_command("ACL SETUSER", "taskq", "reset", *(rule.replace("PASSWORD", "secret") for rule in rules))


def url_of(server, scheme="redis"):
    return f"{scheme}://taskq:secret@127.0.0.1:{server.port}"


@pytest.fixture(params=[name for name in servers.chosen_names() if name != "fakeredis"])
def guarded(request):
    """Start a server of each kind with the documented user."""
    binary = servers.binaries()[request.param]
    if binary is None:
        pytest.skip(f"no {request.param} is installed")
    server = servers.Server(binary).start()
    with server.client() as client:
        set_user(client, COMMON)
    yield server
    server.close()


def test_c37_the_documented_rights_are_enough_for_everything(guarded):
    with guarded.client() as client:
        main_flow(Broker.from_url(url_of(guarded)), Broker(client))
        denied = {str(entry["object"]).partition("|")[0] for entry in client.acl_log()}
    # What the driver and the check of settings ask for, and do without.
    assert denied <= {"info", "config", "client"}


def test_c37_another_namespace_is_out_of_reach(guarded):
    with pytest.raises(ConfigurationError, match=r"(?i)no permissions|can't access"):
        Broker.from_url(url_of(guarded), "other").claim(request())


def test_c37_the_documented_rights_are_enough_on_a_cluster(new_server):
    (node,) = topologies.cluster(new_server, masters=1)
    with node.client() as client:
        set_user(client, [*COMMON, *CLUSTER])
        main_flow(Broker.from_url(url_of(node, "redis+cluster")), Broker(client))


def test_c37_no_right_is_documented_that_nothing_needs():
    texts = "".join(scripts.load(name).text for name in scripts.names())
    called = {command.lower() for command in re.findall(r"(?:call|list)\('([A-Z]+)'", texts)}
    python = "".join(path.read_text() for path in (ROOT / "django_taskq").rglob("*.py"))
    piped = set(re.findall(r'"(z[a-z]+)"', python)) | set(re.findall(r"client\.(z[a-z]+)\(", python))
    documented = {rule[1:] for rule in COMMON if rule.startswith("+")}
    assert documented == (called - SPARED) | DIRECT | piped


def test_c37_nothing_that_blocks_or_governs_a_server_is_needed():
    allowed = {rule.lower() for rule in [*COMMON, *CLUSTER]}
    assert not allowed & {"+keys", "+scan", "+config", "+flushall", "+flushdb", "+debug", "+info", "+@all"}
    assert [rule for rule in COMMON if rule.startswith("~")] == ["~{taskq}:*"]
