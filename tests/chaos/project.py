"""Settings of the processes that the kill run starts."""

from __future__ import annotations

import os

if os.environ.get("TASKQ_TEST_RECORDS"):
    from tests.databases.project import *  # noqa: F403
    from tests.databases.project import TASKS as _TASKS
else:
    from tests.settings import *  # noqa: F403
    from tests.settings import TASKS as _TASKS

_options = {**_TASKS["default"]["OPTIONS"], "lease_seconds": 3}
TASKS = {"default": {**_TASKS["default"], "QUEUES": ["default"], "OPTIONS": _options}}
