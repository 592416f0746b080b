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
    for target in ("help", "test", "check", "lint", "types", "imports", "checker", "chaos", "matrix"):
        assert f"  {target} " in done.stdout
