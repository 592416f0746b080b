"""Kill or stop a process at a function, once: the app of a worker's project that does it where the settings say so."""

from __future__ import annotations

import functools
import os
import pkgutil
import signal

from django.apps import AppConfig
from django.conf import settings

from tests.redis.jobs import NOTES, note, wait_for_note


class Faults(AppConfig):
    name = "tests.databases"

    def ready(self):
        if settings.FAULT:
            install(*settings.FAULT)


def install(when, path, how):
    """Strike `before` or `after` calls of a function, named as `module:function` or `module:Class.method`."""
    owner, name = path.rsplit("." if "." in path.partition(":")[2] else ":", 1)
    owner = pkgutil.resolve_name(owner)
    function = getattr(owner, name)

    @functools.wraps(function)
    def struck(*args, **kwargs):
        if when == "before":
            strike(how)
        returned = function(*args, **kwargs)
        if when == "after":
            strike(how)
        return returned

    setattr(owner, name, struck)


def strike(how):
    """Kill this process, or stop its worker with all its processes, if nobody was struck before."""
    try:
        os.close(os.open(f"{os.environ[NOTES]}.struck", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    note("struck")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        os.killpg(os.getpgrp(), signal.SIGSTOP)
        # The other threads may be stopped first, and this one mustn't get further meanwhile.
        wait_for_note("continue", 60)
