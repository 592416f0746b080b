"""What `manage.py taskq` can do, by name."""

from __future__ import annotations

from .base import Action
from .doctor import Doctor
from .prune import Prune
from .queue import Queue

ACTIONS: dict[str, type[Action]] = {"doctor": Doctor, "prune": Prune, "queue": Queue}
