"""Settings of the processes that the kill run starts."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import TASKS as _TASKS

_options = {**_TASKS["default"]["OPTIONS"], "lease_seconds": 3}
TASKS = {"default": {**_TASKS["default"], "QUEUES": ["default"], "OPTIONS": _options}}
