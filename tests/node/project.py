"""Settings of the Python workers of these tests: every queue, and the tasks of this folder."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _INSTALLED_APPS
from tests.settings import TASKS as _TASKS

INSTALLED_APPS = [*_INSTALLED_APPS, "tests.node"]

_options = {**_TASKS["default"]["OPTIONS"], **json.loads(os.environ.get("TASKQ_TEST_OPTIONS", "{}"))}
TASKS = {"default": {**_TASKS["default"], "OPTIONS": _options}}
