"""The wheel: it holds what the package reads at run time, and nothing else of the repository."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, so that no build folder stays in the work tree."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "django_taskq", source / "django_taskq", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "."]
    done = subprocess.run([*command, "--wheel-dir", "dist"], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_the_wheel_holds_every_file_of_the_package(wheel):
    package = ROOT / "django_taskq"
    files = {path.relative_to(ROOT).as_posix() for path in package.rglob("*") if path.is_file()}
    wanted = {name for name in files if "__pycache__" not in name}
    assert any(name.endswith(".lua") for name in wanted)
    assert "django_taskq/py.typed" in wanted
    assert wanted <= set(wheel.namelist())


def test_the_wheel_holds_nothing_but_the_package(wheel):
    folders = {name.partition("/")[0] for name in wheel.namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"django_taskq"}


def test_the_metadata_names_licence_and_extras(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Name"] == "django-taskq-redis"
    assert metadata["License-Expression"] == "MIT"
    assert {"django52", "fast", "demo", "test", "dev"} <= set(metadata.get_all("Provides-Extra"))
