"""The layers: what a module may load. The contracts stand in setup.cfg."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LOADS_EVERYTHING_IN = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(found.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def loaded_by(package):
    """Import a package with all its modules in a new process; return the top-level names that this loaded."""
    command = [sys.executable, "-c", LOADS_EVERYTHING_IN, package]
    return set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("package", ["django_taskq.broker", "django_taskq.worker"])
def test_the_rings_load_no_django(package):
    assert not loaded_by(package) & {"django", "django_tasks", "asgiref"}


def test_importing_the_package_loads_neither_django_nor_redis():
    command = [sys.executable, "-c", "import sys, django_taskq; print(*sys.modules)"]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not {"django", "redis"} & set(loaded)


def test_the_import_contracts_hold():
    lint = Path(sys.executable).with_name("lint-imports")
    if not lint.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
