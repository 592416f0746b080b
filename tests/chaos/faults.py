"""How each fault is done and undone. What was done is noted when it is over: `since` when, and to whom."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import redis

from tests.chaos.arena import SHIFTED, Arena
from tests.chaos.history import note
from tests.chaos.plan import Fault
from tests.redis.proxy import Proxy

Undo = Callable[[], object] | None
#: Seconds by which a clock is shifted.
SHIFTS = (-86_400, -3600, -30, -2, 2, 30, 3600, 86_400)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Injector:
    """Does faults to an arena. Each method is one kind; it returns what undoes it, where it lasts."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._server = arena.redis.server

    def inject(self, fault: Fault) -> Undo:
        """Do a fault, and return what is to be called when it is over."""
        since = time.monotonic()
        self._draw = random.Random(fault.draw)
        #: What is told of this fault.
        self._told: dict[str, Any] = {}
        undo = getattr(self, "_" + fault.kind.lower().replace(" ", "_"))()
        told = self._told

        def end() -> None:
            if undo is not None:
                undo()
            note("fault", kind=fault.kind, since=told.pop("since", since), **told)

        if undo is None or fault.kind.startswith("kill"):
            note("fault", kind=fault.kind, since=since, **told)
            return undo
        return end

    # --- processes

    def _some_child(self) -> int | None:
        if not (children := [pid for worker in self._arena.workers for pid in worker.children()]):
            return None
        self._told["pids"] = [self._draw.choice(children)]
        return int(self._told["pids"][0])

    def _kill_child(self) -> None:
        if (pid := self._some_child()) is not None:
            _signal(pid, signal.SIGKILL)

    def _freeze_child(self) -> Undo:
        if (pid := self._some_child()) is None:
            return None
        _signal(pid, signal.SIGSTOP)
        return lambda: _signal(pid, signal.SIGCONT)

    def _kill_worker(self) -> Undo:
        """Kill a supervisor and its children at once, as when the machine is gone; it comes back later."""
        worker = self._draw.choice(self._arena.workers)
        self._told |= {"worker": worker.name, "pids": worker.everyone()}
        worker.is_held_back = worker.is_ordered_to_end = True
        worker.signal_all(signal.SIGKILL)
        return lambda: setattr(worker, "is_held_back", False)

    def _freeze_worker(self) -> Undo:
        worker = self._draw.choice(self._arena.workers)
        self._told |= {"worker": worker.name, "pids": worker.everyone()}
        worker.signal_all(signal.SIGSTOP)
        return lambda: worker.signal_all(signal.SIGCONT)

    def _signal_worker(self) -> None:
        """Send one of the signals that a worker knows, at times a second one."""
        worker = self._draw.choice(self._arena.workers)
        for number in self._draw.choice([(signal.SIGUSR1,), *((one,) for one in ENDING), ENDING[:2]]):
            # Before it has children it may not have learned yet what this one means.
            worker.signal(number, ends=number != signal.SIGUSR1 or not worker.children())
            self._told["signal"] = number.name

    def _kill_client(self) -> None:
        client = self._draw.choice(self._arena.clients)
        self._told["pids"] = [client.kill()]
        client.start()

    def _shift_clock(self) -> None:
        if self._arena.clock is not None:
            self._told |= {"worker": f"worker-{SHIFTED}", "seconds": self._draw.choice(SHIFTS)}
            self._arena.set_clock(self._told["seconds"])

    # --- the network

    def _proxies(self) -> list[Proxy]:
        """Choose one connection's worth of processes, or all."""
        one = self._draw.choice(self._arena.proxies)
        return self._arena.proxies if self._draw.random() < 0.3 else [one]

    def _cut_connections(self) -> None:
        for proxy in self._proxies():
            proxy.cut()

    def _delay_replies(self) -> Undo:
        chosen, seconds = self._proxies(), self._draw.choice([0.02, 0.1, 0.5])
        for proxy in chosen:
            proxy.delay = seconds
        return lambda: [setattr(proxy, "delay", 0.0) for proxy in chosen]

    def _hold_traffic(self) -> Undo:
        chosen = self._proxies()
        for proxy in chosen:
            proxy.hold()
        return lambda: [proxy.release() for proxy in chosen]

    def _silence_connections(self) -> None:
        for proxy in self._proxies():
            proxy.silence()

    def _refuse_connections(self) -> Undo:
        chosen = self._proxies()
        for proxy in chosen:
            proxy.refuse()
            proxy.cut()
        return lambda: [proxy.accept() for proxy in chosen]

    def _lose_a_reply(self) -> Undo:
        """Let the next script run whose reply doesn't come: to a settle, a claim, an enqueue."""
        chosen, how = self._proxies(), self._draw.choice(["cut", "hang"])
        for proxy in chosen:
            proxy.lose_reply_to(b"EVALSHA", how)
        return lambda: [proxy.pass_all() for proxy in chosen]

    # --- Redis

    def _freeze_redis(self) -> Undo:
        self._server.pause()
        return self._server.resume

    def _restart_redis(self) -> Undo:
        self._server.stop()
        return self._server.start

    def _fill_memory(self) -> Undo:
        with self._server.client() as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", client.info("memory")["used_memory"] - 1)
        return self._free_memory

    def _free_memory(self) -> None:
        with self._server.client() as client:
            client.config_set("maxmemory", 0)

    def _forget_scripts(self) -> None:
        with self._server.client() as client:
            client.script_flush()

    def _flush_redis(self) -> None:
        self._told["loses"] = True
        with self._server.client() as client:
            client.flushall()

    def _restart_redis_empty(self) -> Undo:
        self._told["loses"] = True
        self._server.stop()
        self._arena.redis.forget()
        return self._server.start

    def _restart_redis_older(self) -> Undo:
        """Let it run on for a while, then take back what it did meanwhile."""
        self._told["loses"] = True
        self._arena.redis.copy()

        def restart() -> None:
            self._server.stop()
            self._arena.redis.forget(back_to_copy=True)
            self._server.start()

        return restart

    # --- the database

    def _cut_database(self) -> None:
        if self._arena.engine is not None:
            self._arena.engine.kill_sessions()

    def _restart_database(self) -> Undo:
        engine = self._arena.engine
        if engine is None:
            return None
        engine.stop()
        return engine.start


def heal(arena: Arena) -> None:
    """End whatever is left of any fault."""
    arena.wake()
    arena.set_clock(0)
    for proxy in arena.proxies:
        proxy.delay = 0.0
        proxy.pass_all()
        proxy.release()
    with contextlib.suppress(redis.RedisError), arena.redis.server.client() as client:
        client.config_set("maxmemory", 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
