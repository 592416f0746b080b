"""The servers of a run: on this machine only, wiped before each measurement, ended with the run."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time


def free_port():
    """Return a port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class RedisServer:
    """A redis-server without persistence, and one plain connection to it."""

    def __init__(self, port=0):
        if shutil.which("redis-server") is None:
            raise SystemExit("redis-server is missing: install it, for nothing can be measured without")
        self.port = port or free_port()
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", self.port)) == 0:
                raise SystemExit(f"port {self.port} is in use; give another with --redis-port")
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([*command, "--dir", tempfile.gettempdir()], stdout=subprocess.DEVNULL)
        self._connect()

    def _connect(self):
        for _ in range(200):
            with contextlib.suppress(OSError):
                self.sock = socket.create_connection(("127.0.0.1", self.port))
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.file = self.sock.makefile("rb")
                return
            time.sleep(0.05)
        raise SystemExit("redis-server did not start")

    @staticmethod
    def encode(*parts):
        out = b"*%d\r\n" % len(parts)
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            out += b"$%d\r\n%s\r\n" % (len(data), data)
        return out

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest.decode()

    def command(self, *parts):
        self.sock.sendall(self.encode(*parts))
        return self.reply()

    def info(self):
        lines = self.command("INFO", "everything").decode().splitlines()
        return {key: value for key, _, value in (line.partition(":") for line in lines)}

    def snapshot(self):
        """Return the counters that are compared before and after a stretch of work."""
        info = self.info()
        calls = {
            key.removeprefix("cmdstat_"): int(value.split(",")[0].removeprefix("calls="))
            for key, value in info.items()
            if key.startswith("cmdstat_")
        }
        return {
            "calls": calls,
            "commands": sum(calls.values()),
            "reads": int(info["total_reads_processed"]),
            "bytes": int(info["total_net_input_bytes"]) + int(info["total_net_output_bytes"]),
            "cpu": float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
            "memory": int(info["used_memory"]),
        }

    def wipe(self):
        self.command("FLUSHALL")
        self.command("SCRIPT", "FLUSH")
        self.command("CONFIG", "RESETSTAT")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def postgres_tools():
    """Return the folder of PostgreSQL's programs, or None."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return pathlib.Path(on_path).parent if on_path else None


class PostgresServer:
    """A PostgreSQL cluster with its stock settings (durable commits), which also notes when it committed each row."""

    def __init__(self, port=0):
        self.tools, self.port = postgres_tools(), port or free_port()
        self.data = pathlib.Path(tempfile.mkdtemp(prefix="taskq-bench-postgres-"))
        self.prefix = []
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self.data, "postgres", "postgres")
            self.prefix = ["runuser", "-u", "postgres", "--"]
        self.run("initdb", "-D", self.data, "-U", "bench", "-A", "trust")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.data} -c track_commit_timestamp=on"
        self.run("pg_ctl", "-D", self.data, "-w", "-o", options, "-l", self.data / "log", "start")
        self.query("CREATE DATABASE bench", "template1")

    def run(self, tool, *args):
        subprocess.run(
            [*self.prefix, self.tools / tool, *args], check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=60
        )

    def query(self, statement, database="bench"):
        """Run a statement, and return the fields of its first row as strings."""
        command = [self.tools / "psql", "-qtA", "-F", "|", "-h", "127.0.0.1", "-p", str(self.port), "-U", "bench"]
        done = subprocess.run(
            [*command, "-d", database, "-c", statement], check=True, capture_output=True, text=True, cwd="/"
        )
        return done.stdout.partition("\n")[0].split("|")

    def wipe(self):
        self.query("DROP DATABASE IF EXISTS bench WITH (FORCE)", "template1")
        self.query("CREATE DATABASE bench", "template1")

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
        shutil.rmtree(self.data, ignore_errors=True)
