"""What an adapter says about its queue, and the environment that the queue's library gets."""

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
#: The checkout; workers and producers run from here.
ROOT = HERE.parent

#: The cases that every queue has, by the names of cases/__init__.py.
COMMON = ("enqueue", "bulk", "drain", "latency", "io", "memory", "idle")


class Peer:
    """One adapter. Subclass it in `peers/NAME.py` and call the class `Adapter`.

    The first half is read outside the peer's environment, so an adapter imports its libraries only under
    `if probe.INSIDE:` or in methods of the second half.
    """

    #: Pinned requirements, installed into the peer's own virtual environment.
    requirements = []
    #: Environment variable that names the Python to build it with, for a library that needs another one. The peer is
    #: left out while it is not set.
    interpreter = None
    #: "redis", "postgres" or "sqlite": where the queue is.
    broker = "redis"
    #: Named configurations beside each other. The first is the one whose enqueue side is measured.
    variants = ["default"]
    #: Variants whose producer writes another format, so that enqueue is measured too.
    own_producer = ()
    #: True where the peer writes many tasks in fewer round trips.
    bulk = False
    #: True where `prepare` must run before each measurement.
    prepares = True
    #: Worker sizes to try for the drain of no-ops; the best is kept. A plan is passed back to `worker` untouched.
    plans = {"default": [{"procs": 1, "conc": 1}]}
    #: Worker size for tasks that wait, per variant. None leaves the case out.
    io_plans = {"default": {"procs": 1, "conc": 50}}
    #: Size of drain and io as a factor of the case's, for variants that are slow or fast by design.
    scales = {}
    #: One line for the report: contract and caveats.
    note = ""

    def __init__(self, name):
        self.name = name

    def cases(self, variant):
        """Return the names of the cases that this variant takes part in."""
        return COMMON

    def plans_for(self, variant):
        return self.plans.get(variant) or self.plans["default"]

    def io_plan_for(self, variant):
        if self.io_plans is None:
            return None
        return self.io_plans.get(variant) or self.io_plans["default"]

    def scale_for(self, variant):
        return self.scales.get(variant, self.scales.get("default", 1.0))

    def broker_for(self, variant):
        return self.broker

    def needs_postgres(self, variant):
        return self.broker_for(variant) == "postgres"

    def rows(self, bench, n):
        """Return `rows` and, in monotonic ns, `last_row` where a drain also writes them; None elsewhere."""

    def missing(self):
        """Say what keeps this peer from running here, or return None."""
        if self.interpreter and not os.environ.get(self.interpreter):
            return f"set {self.interpreter} to the Python that it needs"
        return None

    def env(self, variant):
        """Return extra environment for producers and workers."""
        return {}

    def worker(self, python, variant, plan):
        """Return the command lines of the worker service: a list of lists."""
        raise NotImplementedError

    def producer(self, python, action, options):
        """Return the command line of the producer process."""
        return [python, "-m", "benchmarks.inside", self.name, action, json.dumps(options)]

    def build(self, directory):
        """Fill `directory` with what the peer needs; return the interpreter."""
        python = directory / "bin" / "python"
        stamp = directory / "requirements.txt"
        wanted = "\n".join(self.requirements) + "\n"
        if not stamp.exists() or stamp.read_text() != wanted:
            base = os.environ[self.interpreter] if self.interpreter else sys.executable
            subprocess.run([base, "-m", "venv", "--clear", "--without-pip", directory], check=True)
            subprocess.run([*self.pip(python), "-q", "install", *self.requirements], check=True)
            stamp.write_text(wanted)
        return python

    def pip(self, python):
        """Return the command of the harness's own pip at work in another environment, which needs none then."""
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]

    def versions(self, python):
        """Return the versions of what the adapter names; the rest of its environment follows from these."""
        named = {_project(requirement) for requirement in self.requirements}
        found = [line for line in _output([*self.pip(python), "freeze"]).split("\n") if _project(line) in named]
        if self.interpreter:
            version = "import platform as p; print('python==' + p.python_version())"
            found += _output([python, "-c", version]).split()
        return found

    # ---- from here on: called in the peer's own environment (inside.py) ----
    def prepare(self):
        """Once per run, before anything is enqueued: migrations, groups."""

    def open(self):
        """Import the application; may be a coroutine function."""

    def enqueue(self, task, i, tag):
        """Enqueue one task, "noop" or "nap"; may be a coroutine function."""
        raise NotImplementedError

    def enqueue_many(self, task, numbers, tag):
        """Enqueue all of `numbers` the peer's fastest documented way."""
        raise NotImplementedError

    def close(self):
        pass


def _project(requirement):
    """Return the normalized name of the project in a requirement."""
    return re.split(r"[\[=<> ]", requirement)[0].lower().replace("_", "-")


def _output(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def load(name):
    """Return the adapter of a name."""
    return importlib.import_module(f"benchmarks.peers.{name}").Adapter(name)


def all_names():
    names = {path.stem for path in (HERE / "peers").glob("*.py")}
    return sorted(name for name in names if not name.startswith("_"))
