"""A project that is never loaded: importing this blocks, in every process but the first."""

from __future__ import annotations

import time

time.sleep(1000)
