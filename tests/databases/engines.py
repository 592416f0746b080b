"""Start PostgreSQL and MariaDB for the tests: on this machine only, and never longer than the test run."""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.servers import _libc, free_port

#: Seconds that a server may take until it answers.
START_TIMEOUT = 20.0

PR_SET_PDEATHSIG = 1


def _die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Return what makes a new process get a signal when the tests end, whatever ended them."""

    def ask() -> None:
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, number)

    return ask


def _me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


class Engine:
    """A database server with an empty database `taskq`. It is stopped by `stop`, and started again on its data."""

    name = ""
    #: The Python module that Django needs for it.
    driver = ""
    user: str | None = None
    parting = signal.SIGKILL

    def __init__(self, *options: str) -> None:
        self.options = options
        self.folder = tempfile.mkdtemp(prefix=f"taskq-{self.name}-")
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def missing(cls) -> str:
        """Say what isn't installed, or nothing."""
        raise NotImplementedError

    def settings(self, name: str = "taskq", **more: Any) -> dict[str, Any]:
        """Return an entry of DATABASES."""
        raise NotImplementedError

    def _create(self) -> None:
        """Make the data folder."""
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def run(self, sql: str) -> str:
        """Run a statement with the server's own client, and return what it prints; raises CalledProcessError."""
        raise NotImplementedError

    def sessions(self) -> list[str]:
        """Return the ids of the connections to the database."""
        raise NotImplementedError

    def kill(self, session: str) -> None:
        """End a connection."""
        raise NotImplementedError

    def kill_sessions(self) -> int:
        """End every connection to the database; return how many there were."""
        sessions = self.sessions()
        for session in sessions:
            with contextlib.suppress(subprocess.CalledProcessError):  # it went by itself
                self.kill(session)
        return len(sessions)

    def start(self) -> Engine:
        """Start, and return when it answers."""
        if self.user:
            shutil.chown(self.folder, self.user)
        if not (created := Path(self.folder, "data").exists()):
            self._create()
        for _ in range(5):
            self.port = self.port or free_port()
            if self._launch():
                atexit.register(self.close)
                if not created:
                    self.run("CREATE DATABASE taskq")
                return self
            self.port = 0
        raise RuntimeError(f"{self.name} did not start:\n{Path(self.folder, 'log').read_text(errors='replace')}")

    def _launch(self) -> bool:
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self.user,
                group=None if self.user is None else pwd.getpwnam(self.user).pw_gid,
                extra_groups=None if self.user is None else [],
                cwd=self.folder,
                preexec_fn=_die_with_parent(self.parting),
            )
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.run("SELECT 1")
                return True
            except subprocess.CalledProcessError:
                time.sleep(0.02)
        self.stop()
        return False

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.parting)
            self.process.wait(timeout=20)
        self.process = None

    def close(self) -> None:
        atexit.unregister(self.close)
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _client(self, *command: str, sql: str) -> str:
        return subprocess.run(
            [*command, sql], check=True, capture_output=True, timeout=30, stdin=subprocess.DEVNULL, text=True
        ).stdout


class PostgreSQL(Engine):
    name = "postgresql"
    driver = "psycopg"
    #: It refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    #: Its fast way out, which leaves no shared memory behind.
    parting = signal.SIGQUIT

    @classmethod
    def missing(cls) -> str:
        return "" if cls._folder() else "the PostgreSQL server"

    @staticmethod
    def _folder() -> Path | None:
        """Find the programs: Debian keeps each version in a folder of its own, off the PATH."""
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
        on_path = shutil.which("postgres")
        found = versions[-1] if versions else on_path and Path(on_path)
        return found.parent if found else None

    def _program(self, name: str) -> str:
        folder = self._folder()
        assert folder is not None
        return str(folder / name)

    def _create(self) -> None:
        subprocess.run(
            [
                *(self._program("initdb"), "-D", f"{self.folder}/data", "-U", "postgres", "-A", "trust"),
                *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            user=self.user,
            cwd=self.folder,
            timeout=60,
        )

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "fsync": "off",
            "synchronous_commit": "on",
            "full_page_writes": "off",
            "max_connections": "100",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [self._program("postgres"), "-D", f"{self.folder}/data", "-p", str(self.port), "-k", self.folder]
        return [*command, *options, *self.options]

    def settings(self, name: str = "taskq", **more: Any) -> dict[str, Any]:
        where = {"HOST": "127.0.0.1", "PORT": str(self.port), "USER": "postgres"}
        return {"ENGINE": "django.db.backends.postgresql", "NAME": name, **where, **more}

    def run(self, sql: str) -> str:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres"]
        return self._client(self._program("psql"), "-X", "-q", "-A", "-t", *where, "-c", sql=sql)

    def sessions(self) -> list[str]:
        return self.run("SELECT pid FROM pg_stat_activity WHERE datname = 'taskq'").split()

    def kill(self, session: str) -> None:
        self.run(f"SELECT pg_terminate_backend({session})")


class MariaDB(Engine):
    name = "mariadb"
    driver = "pymysql"

    @classmethod
    def missing(cls) -> str:
        programs = ("mariadbd", "mariadb", "mariadb-install-db")
        return "" if all(cls._find(program) for program in programs) else "the MariaDB server"

    @staticmethod
    def _find(program: str) -> str | None:
        return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

    def _create(self) -> None:
        subprocess.run(
            [
                *(str(self._find("mariadb-install-db")), "--no-defaults", f"--datadir={self.folder}/data"),
                *("--auth-root-authentication-method=normal", "--skip-test-db", f"--user={_me()}"),
                f"--tmpdir={self.folder}",
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def _command(self) -> list[str]:
        return [
            str(self._find("mariadbd")),
            "--no-defaults",
            f"--user={_me()}",
            f"--datadir={self.folder}/data",
            # A server that starts deletes the temporary tables that it finds, also those of another.
            f"--tmpdir={self.folder}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder}/s",
            f"--pid-file={self.folder}/pid",
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-log-bin",
            "--character-set-server=utf8mb4",
            *self.options,
        ]

    def settings(self, name: str = "taskq", **more: Any) -> dict[str, Any]:
        where = {"HOST": "127.0.0.1", "PORT": str(self.port), "USER": "root"}
        options = {"charset": "utf8mb4", **more.pop("OPTIONS", {})}
        return {"ENGINE": "django.db.backends.mysql", "NAME": name, **where, "OPTIONS": options, **more}

    def run(self, sql: str) -> str:
        where = ["-h127.0.0.1", f"-P{self.port}", "-uroot", "--connect-timeout=2", "-N", "-B"]
        return self._client(str(self._find("mariadb")), "--no-defaults", *where, "-e", sql=sql)

    def sessions(self) -> list[str]:
        return self.run("SELECT id FROM information_schema.processlist WHERE db = 'taskq'").split()

    def kill(self, session: str) -> None:
        self.run(f"KILL {session}")


ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (PostgreSQL, MariaDB)}

#: MariaDB knows it since 10.6.18 and 10.11.8, and later versions have it on.
_SNAPSHOT = "/*M!101108 SET SESSION innodb_snapshot_isolation = ON */"
#: How transactions can be kept apart: by name, the server, and the options of its entry in DATABASES.
ISOLATED: dict[str, tuple[str, dict[str, Any]]] = {
    # The numbers are those of `psycopg.IsolationLevel`.
    "postgresql-committed": ("postgresql", {"isolation_level": 2}),
    "postgresql-repeatable": ("postgresql", {"isolation_level": 3}),
    "postgresql-serializable": ("postgresql", {"isolation_level": 4}),
    "mariadb-committed": ("mariadb", {"isolation_level": "read committed"}),
    "mariadb-repeatable": ("mariadb", {"isolation_level": "repeatable read"}),
    "mariadb-serializable": ("mariadb", {"isolation_level": "serializable"}),
    "mariadb-snapshot": ("mariadb", {"isolation_level": "repeatable read", "init_command": _SNAPSHOT}),
}
#: SQLite as atomic tasks need it.
IMMEDIATE = {"transaction_mode": "IMMEDIATE", "timeout": 5, "init_command": "PRAGMA journal_mode = WAL"}
