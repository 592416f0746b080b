"""A worker with something wrong in it: `python -m tests.redis.supervise FAULT`, and settings as JSON on stdin."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from django_taskq.broker.broker import Broker
from django_taskq.management.application import connect
from django_taskq.worker import duty
from django_taskq.worker.claims import Claims
from django_taskq.worker.nursery import Nursery
from django_taskq.worker.settings import Settings
from django_taskq.worker.supervisor import Supervisor


def nth_process(folder):
    """Return the number of this process among those that asked."""
    for number in range(1000):
        try:
            os.close(os.open(f"{folder}/process-{number}", os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            continue
    raise AssertionError


def connect_or_hang(folder):
    """Be an application, but in the second child never."""
    if multiprocessing.parent_process() is not None and nth_process(folder) == 1:
        time.sleep(1000)
    return connect("default")


def connect_or_fail():
    """Be an application in the supervisor alone."""
    if multiprocessing.parent_process() is not None:
        raise ValueError("this project is broken")
    return connect("default")


def connect_and_raise(folder, where):
    """Be an application; in the first child something in the worker's own code raises, once."""
    if multiprocessing.parent_process() is not None and nth_process(folder) == 0:
        owner, name = {"loop": (Claims, "look_at_clock"), "waiter": (Broker, "wait")}[where]
        raise_at_third_call(owner, name)
    return connect("default")


def connect_and_die_before_settling(folder):
    """Be an application; the first child is killed when it is to settle what several runs have come to."""
    if multiprocessing.parent_process() is not None and nth_process(folder) == 0:
        original = Broker.exchange

        def exchange(broker, settlements, claim):
            if len(settlements) > 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(broker, settlements, claim)

        Broker.exchange = exchange
    return connect("default")


def raise_at_third_call(owner, name):
    original, calls = getattr(owner, name), itertools.count(1)

    def faulty(*args, **kwargs):
        if next(calls) == 3:
            raise RuntimeError(f"fault in {name}")
        return original(*args, **kwargs)

    setattr(owner, name, faulty)


def raise_on_request(folder):
    """Make the supervisor's main loop raise when the test has made a file."""
    original = Nursery.watch

    def watch(nursery):
        if Path(folder, "break").exists():
            raise RuntimeError("fault in watch")
        return original(nursery)

    Nursery.watch = watch


def raise_once(kind):
    """Make every duty raise in its third round."""
    rounds = {}

    def fault(name):
        rounds[name] = rounds.get(name, 0) + 1
        if rounds[name] == 3:
            raise kind(f"fault in {name}")

    duty.fault = fault


def main():
    options = json.load(sys.stdin)
    folder, fault = options.pop("folder"), sys.argv[1]
    factory, preload = partial(connect, "default"), []
    match fault:
        case "blocked":
            preload = ["tests.redis.blocking"]
        case "loop" | "waiter":
            factory = partial(connect_and_raise, folder, fault)
        case "settling":
            factory = partial(connect_and_die_before_settling, folder)
        case "supervisor":
            raise_on_request(folder)
        case "greeting":
            Broker.server_warnings = lambda broker: 1 / 0
        case "hang":
            factory = partial(connect_or_hang, folder)
        case "broken":
            factory = connect_or_fail
        case "exception":
            raise_once(RuntimeError)
        case "thread":
            raise_once(SystemExit)
    health = Path(folder, "health")
    settings = Settings(name="faulty", queues=("default",), health_file=health, **options)
    sys.exit(Supervisor(settings, factory, preload=preload).run())


if __name__ == "__main__":
    main()
