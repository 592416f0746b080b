"""The shop of testproject/, run as its user would: by its own manage.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def manage(tmp_path, redis_url):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SHOP_DATA": str(tmp_path), "TASKQ_REDIS_URL": redis_url}
    environment.pop("DJANGO_SETTINGS_MODULE", None)

    def run(*arguments):
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT / "testproject", env=environment, capture_output=True, text=True)

    return run


def test_the_shop_passes_its_own_tests(manage):
    done = manage("test", "--verbosity", "2")
    assert done.returncode == 0, done.stderr
    assert "test_an_order_that_fails_enqueues_nothing" in done.stderr


def test_the_shop_is_set_up_without_a_warning(manage):
    done = manage("check", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert manage("makemigrations", "--check").stdout == "No changes detected\n"
