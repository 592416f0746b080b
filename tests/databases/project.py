"""Settings of the worker processes that keep rows: what the test put into the environment, as JSON."""

from __future__ import annotations

import json
import os

import django_taskq.worker.rows
from tests.databases.routing import ALIAS
from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as _DATABASES
from tests.settings import INSTALLED_APPS as _INSTALLED_APPS
from tests.settings import TASKS as _TASKS

_given = json.loads(os.environ["TASKQ_TEST_RECORDS"])

DATABASES = {**_DATABASES, ALIAS: _given["database"]}
if DATABASES[ALIAS]["ENGINE"].endswith("mysql"):
    import pymysql

    pymysql.install_as_MySQLdb()
INSTALLED_APPS = [*_INSTALLED_APPS, "tests.databases.faults.Faults"]
#: When, where and how a process is struck, for `tests.databases.faults`.
FAULT = _given.get("fault")
DATABASE_ROUTERS = ["tests.databases.routing.ToRecords"]
USE_TZ = _given.get("use_tz", True)
TIME_ZONE = _given.get("time_zone", "UTC")

_options = {**_TASKS["default"]["OPTIONS"], "lease_seconds": 3, "records": "finished", **_given.get("options", {})}
TASKS = {"default": {**_TASKS["default"], "OPTIONS": _options}}

django_taskq.worker.rows.PATIENCE = _given.get("patience", 60.0)
