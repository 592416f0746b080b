"""Notice that the project's code changed, with Django's own reloader classes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from django.utils import autoreload

logger = logging.getLogger("django_taskq.worker")


def watch_code(changed: Callable[[], None]) -> None:
    """Call `changed` whenever a loaded file does, from a thread.

    `run_with_reloader` would take the main thread, which catches the signals.
    """

    def file_changed(sender: object, file_path: object, **kwargs: Any) -> bool:
        logger.info("%s changed", file_path)
        changed()
        return True  # or Django would end this process

    def run() -> None:
        autoreload.file_changed.connect(file_changed, weak=False)
        autoreload.get_reloader().run_loop()

    threading.Thread(target=run, name="code watcher", daemon=True).start()
