"""Settings of the processes that a run starts: what the driver put into the environment, as JSON."""

from __future__ import annotations

import json
import os

from tests.chaos import witness
from tests.chaos.history import GIVEN

_given = json.loads(os.environ[GIVEN])

SECRET_KEY = "chaos"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django_taskq", "tests.chaos"]
#: Django makes up an entry where there is none.
HAS_DATABASE = bool(_given["database"])
DATABASES = {}
if _given["database"]:
    DATABASES["default"] = _given["database"]
    if DATABASES["default"]["ENGINE"].endswith("mysql"):
        import pymysql

        pymysql.install_as_MySQLdb()
TASKS = {
    "default": {
        "BACKEND": "django_taskq.backend.RedisBackend",
        "QUEUES": ["default"],
        "OPTIONS": {
            "url": _given["url"],
            "lease_seconds": _given["lease"],
            "records": "finished" if _given["database"] else "none",
        },
    }
}

witness.install()
