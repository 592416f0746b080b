"""The processes of the demo: each has a name, shows its lines, and ends with us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

from tests.servers import die_with_parent

#: Seconds that a process may take to end; the worker waits 5 s for what runs.
STOP_TIMEOUT = 12.0
#: Lines kept of each process, shown when something goes wrong.
KEPT = 60


class DemoError(Exception):
    """The demo can't go on."""


class Terminated(KeyboardInterrupt):
    """A signal asks us to end."""


def run_to_end(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run a command that ends by itself; raise with its output when it fails."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise DemoError(f"{' '.join(command[1:])} failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")


class Child:
    """A process in a session of its own, so that Ctrl+C reaches us only and we end all in the right order."""

    def __init__(self, name: str, command: list[str], folder: Path, env: dict[str, str], *, show: bool) -> None:
        self.name = name
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._show = show
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """What it wrote last."""
        return "".join(f"  {self.name} | {line}\n" for line in list(self._lines))

    def check_alive(self) -> None:
        """Raise when the process has ended."""
        code = self._process.poll()
        if code is not None:
            self._reader.join(1)
            raise DemoError(f"{self.name} ended with exit code {code}.\n{self.text}")

    def stop(self) -> str:
        """End the process with TERM, or with KILL when that takes too long; return what went wrong, if anything."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        if code is None:
            return f"{self.name} did not end within {STOP_TIMEOUT:.0f} s and was killed.\n{self.text}"
        return "" if code in (0, -signal.SIGTERM) else f"{self.name} ended with exit code {code}.\n{self.text}"

    def kill(self) -> None:
        """Kill whatever is left of its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(1)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            line = line.rstrip()
            self._lines.append(line)
            # The pages ask for their state every second or two: that is no news.
            if self._show and line and '"GET ' not in line:
                print(f"{self.name:>6} | {line}", file=sys.stdout, flush=True)
