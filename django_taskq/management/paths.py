"""Hand the import path on to the fork server, which Python doesn't."""

from __future__ import annotations

import os
import sys

PATH_VARIABLE = "DJANGO_TASKQ_PATH"


def export_path() -> None:
    """Leave `sys.path` in the environment, for `preload`."""
    os.environ[PATH_VARIABLE] = os.pathsep.join(sys.path)
