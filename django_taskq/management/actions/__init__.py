"""What `manage.py taskq` can do, by name."""

from __future__ import annotations

from .base import Action
from .prune import Prune

ACTIONS: dict[str, type[Action]] = {"prune": Prune}
