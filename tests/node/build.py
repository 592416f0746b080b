"""The client for Node.js, built where it can be; where it can't, what is missing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.processes import ROOT

FOLDER = Path(__file__).parent
CLIENT = ROOT / "clients" / "node"


def run(*command: str) -> str:
    """Run a command at the root of the project; return what it wrote where it failed, and nothing where it didn't."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout.strip() or f"{command[0]} ended with {done.returncode}"


@cache
def missing() -> str:
    """Return what keeps Node.js from being used here, nothing where it can be."""
    return run("scripts/has_node.sh")


@cache
def build() -> str:
    """Build the client unless that is done; return why it couldn't be. Several test processes may ask at once."""
    with open(Path(tempfile.gettempdir(), f"taskq-node-{os.getuid()}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return run("make", "--silent", "node")


def require() -> None:
    """Skip where Node.js isn't there; where CI runs nothing is skipped for want of it, and a failed build fails."""
    if missing() and not os.environ.get("CI"):
        pytest.skip(missing())
    if problem := missing() or build():
        pytest.fail(problem, pytrace=False)
