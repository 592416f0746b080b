"""What calls cost their server: processor time of its thread, which other work on the machine doesn't change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from django_taskq.broker.broker import Broker


class Meter:
    """Notes what each call of a broker costs its server, in ms of processor time."""

    def __init__(self, broker: Broker, pid: int) -> None:
        if not Path("/proc/self/schedstat").exists():
            pytest.skip("the processor time of a thread is Linux's")
        self._path = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self._client = broker.client

    def _used(self) -> float:
        return int(self._path.read_text().split()[0]) / 1e6

    @contextmanager
    def measured(self) -> Iterator[list[float]]:
        execute, pipeline = self._client.execute_command, self._client.pipeline
        costs: list[float] = []

        def measure(call, *arguments, **options):
            before = self._used()
            try:
                return call(*arguments, **options)
            finally:
                costs.append(self._used() - before)

        def piped(*arguments, **options):
            made = pipeline(*arguments, **options)
            run = made.execute
            made.execute = lambda *rest, **more: measure(run, *rest, **more)
            return made

        self._client.execute_command = lambda *arguments, **options: measure(execute, *arguments, **options)
        self._client.pipeline = piped
        try:
            yield costs
        finally:
            self._client.execute_command, self._client.pipeline = execute, pipeline
