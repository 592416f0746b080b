"""The wheel and the archive of the sources hold what the package reads at run time, and nothing else of the repository.

The client for Node.js is the same release, and its page is read where the rest of the repository isn't.
"""

from __future__ import annotations

import configparser
import email
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "node"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both from a copy, so that no build folder stays in the work tree."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("django_taskq", "clients", "scripts"):
        unwanted = shutil.ignore_patterns("__pycache__", "node_modules", "dist")
        shutil.copytree(ROOT / folder, source / folder, ignore=unwanted)
    for name in ("setup.cfg", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    build = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return source / "dist"


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
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


def test_the_archive_of_the_sources_holds_nothing_but_the_package(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [member.name.partition("/")[2] for member in archive if member.isfile()]
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {"django_taskq", "django_taskq_redis.egg-info"}
    assert "django_taskq/lua/claim.lua" in names


def test_the_metadata_names_licence_and_extras(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Name"] == "django-taskq-redis"
    assert metadata["License-Expression"] == "MIT"
    assert {"django52", "fast", "demo", "test", "dev"} <= set(metadata.get_all("Provides-Extra"))


def test_the_lock_file_of_the_client_for_node_names_checksums_and_no_addresses():
    lock = json.loads((CLIENT / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not [name for name, package in packages.items() if "resolved" in package]


def test_the_client_for_node_is_the_same_release_under_the_same_licence():
    package = json.loads((CLIENT / "package.json").read_text())
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    same = {"name": "name", "version": "version", "author": "author", "license": "license_expression"}
    assert [package[ours] for ours in same] == [metadata["metadata"][theirs] for theirs in same.values()]
    assert (CLIENT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_page_of_the_client_for_node_leads_to_nothing_that_its_package_leaves_out():
    addresses = re.findall(r"\]\(([^)]+)\)", (CLIENT / "README.md").read_text())
    assert [address for address in addresses if not address.startswith(("https://", "#"))] == []
