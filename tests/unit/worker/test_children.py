"""A child as its supervisor sees it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from django_taskq.worker import children
from django_taskq.worker.children import ChildProcess
from django_taskq.worker.settings import Settings
from tests.waiting import wait_until


def close_files_and_stay(*arguments):
    os.closerange(3, 300)
    time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_that_let_go_of_its_pipe_and_is_still_there_is_killed(monkeypatch):
    monkeypatch.setattr(children, "serve", close_files_and_stay)
    child = ChildProcess(multiprocessing.get_context("fork"), Settings(name="w"), None)
    child.start(lambda: None)
    wait_until(lambda: child.is_gone)

    assert child.close() == f"was killed by signal {signal.SIGKILL:d}"
