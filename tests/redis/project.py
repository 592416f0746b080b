"""Settings of the worker processes that the tests start."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time

from tests.settings import *  # noqa: F403
from tests.settings import TASKS as _TASKS

DEBUG = os.environ.get("TASKQ_TEST_DEBUG") == "1"

_options = {**_TASKS["default"]["OPTIONS"], "lease_seconds": float(os.environ.get("TASKQ_TEST_LEASE", "3"))}
TASKS = {"default": {**_TASKS["default"], "QUEUES": ["default", "mail", "receipts"], "OPTIONS": _options}}
if os.environ.get("TASKQ_TEST_ALL_QUEUES"):
    TASKS["default"]["QUEUES"] = []

INSTALLED_APPS = [*INSTALLED_APPS, *os.environ.get("TASKQ_TEST_APPS", "").split()]  # noqa: F405

if multiprocessing.current_process().name != "MainProcess" or "forkserver" in " ".join(sys.orig_argv):
    time.sleep(float(os.environ.get("TASKQ_TEST_SLOW_CHILDREN", "0")))

if "TASKQ_TEST_AGE" in os.environ:
    age = json.loads(os.environ["TASKQ_TEST_AGE"])
    DATABASES = {alias: {**entry, "CONN_MAX_AGE": age} for alias, entry in DATABASES.items()}  # noqa: F405
