"""The way in: `make help`, and how the interpreter is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICK = ROOT / "scripts" / "pick_python.sh"
HAS_NODE = ROOT / "scripts" / "has_node.sh"

OLD = '#!/bin/sh\n[ "$1" = - ] && echo "is Python 3.9"\n'
BROKEN = "#!/bin/sh\nexit 127\n"


def pick(folder, **environment):
    """Run pick_python.sh where nothing but `folder` and the plain shell tools are on the path."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    environment = {"PATH": f"{folder}:{tools}", "HOME": str(folder), "MIN": "98", "MAX": "99", **environment}
    return subprocess.run(["/bin/sh", PICK], env=environment, capture_output=True, text=True)


def interpreter(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_named_interpreter_is_taken(tmp_path):
    minor = str(sys.version_info.minor)
    done = pick(tmp_path, PYTHON=sys.executable, MIN=minor, MAX=minor)
    assert done.stdout.strip() == sys.executable


def test_a_named_interpreter_that_will_not_do_is_refused_with_the_reason(tmp_path):
    done = pick(tmp_path, PYTHON=sys.executable)
    assert done.returncode == 1
    assert f"is Python 3.{sys.version_info.minor}" in done.stderr


def test_where_none_is_found_the_message_names_what_was_seen_and_what_is_needed(tmp_path):
    old = interpreter(tmp_path / "python3", OLD)
    broken = interpreter(tmp_path / "python3.99", BROKEN)
    done = pick(tmp_path)
    assert done.returncode == 1
    assert f"{old}: is Python 3.9" in done.stderr
    assert f"{broken}: does not run" in done.stderr
    assert "CPython 3.98 to 3.99 with venv" in done.stderr


def test_the_newest_is_taken(tmp_path):
    for name in ("python3.98", "python3.99", "python3"):
        interpreter(tmp_path / name, "#!/bin/sh\n")
    assert pick(tmp_path).stdout.strip() == str(tmp_path / "python3.99")


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_make_help_lists_the_targets_without_any_python(tmp_path):
    for tool in ("sh", "awk", "printf"):
        os.symlink(shutil.which(tool), tmp_path / tool)
    done = subprocess.run(
        [shutil.which("make"), "help"], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    targets = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert {"help", "test", "check", "lint", "types", "imports", "checker", "chaos", "matrix", "node-test"} <= targets


def has_node(folder, **programs):
    """Run has_node.sh where nothing but these programs is on the path."""
    for name, text in programs.items():
        interpreter(folder / name, text)
    return subprocess.run(["/bin/sh", HAS_NODE], env={"PATH": str(folder)}, capture_output=True, text=True)


def node(version):
    return f'#!/bin/sh\n[ "$1" = --version ] && echo v{version} || echo {version.partition(".")[0]}\n'


def test_node_and_npm_are_enough_for_the_client(tmp_path):
    done = has_node(tmp_path, node=node("20.0.0"), npm="#!/bin/sh\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_one_line_says_what_the_client_for_node_lacks(tmp_path):
    for programs, lack in [
        ({}, "node isn't on the path, or doesn't run."),
        ({"node": BROKEN}, "node isn't on the path, or doesn't run."),
        ({"node": node("18.19.1")}, "node is v18.19.1."),
        ({"node": node("20.0.0")}, "npm isn't on the path."),
    ]:
        done = has_node(tmp_path, **programs)
        assert done.returncode == 1
        assert done.stderr == f"Node.js 20 or newer and npm are needed for the client in clients/node: {lack}\n"
