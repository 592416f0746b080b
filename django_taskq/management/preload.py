"""Imported by the fork server: what is loaded here, no child loads again.

It never fails: a child that finds nothing loaded does it itself, and says what is wrong.
"""

from __future__ import annotations

import os
import sys

from ..worker.entry import ignore_group_signals
from .paths import PATH_VARIABLE


def _preload() -> None:
    from django.db import connections

    from .application import load_project

    load_project()
    # What the project opened while it was loaded would be shared by all children.
    connections.close_all()


# A service manager sends TERM to the whole group, and the supervisor hears of its children's end from here.
ignore_group_signals()
if PATH_VARIABLE in os.environ:
    sys.path[:] = os.environ.pop(PATH_VARIABLE).split(os.pathsep)
try:
    _preload()
except BaseException:
    pass
