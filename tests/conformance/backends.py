"""What Django's tests expect of the Dummy and Immediate backends, around `RedisBackend` on fakeredis.

`WaitingBackend` lists what was enqueued and can be cleared, as Dummy can; `DrainingBackend` runs a task within
`enqueue`, as Immediate does: claim, perform, settle. Neither changes how a task is stored, run or read back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import fakeredis
from asgiref.sync import async_to_sync, sync_to_async
from django.tasks import TaskResultStatus

from django_taskq.backend import RedisBackend
from django_taskq.broker.broker import Broker
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import Claim
from django_taskq.broker.settlements import Complete
from django_taskq.conf import Options
from django_taskq.execution import Application
from django_taskq.producer import Producer
from django_taskq.worker.outcomes import Failed, settle

CLIENT = fakeredis.FakeStrictRedis(server=fakeredis.FakeServer())
BROKER = Broker(CLIENT)
PRODUCER = Producer(BROKER)
NONCES = itertools.count(1)


def claim_one(queues):
    claimed = BROKER.claim(Claim("conformance.00000000", next(NONCES), 1, 30_000, tuple(queues)))
    return claimed.leases[0] if claimed.leases else None


class OneAttemptBackend(RedisBackend):
    """`RedisBackend` with one attempt for each task: Django's own backends know no other."""

    #: Attempts of a task that says nothing itself.
    attempts = 1

    @property
    def conf(self):
        return dataclasses.replace(Options.parse({}), max_attempts=self.attempts)


class WaitingBackend(OneAttemptBackend):
    """The Dummy backend's `results` and `clear()`; nothing is run."""

    #: Results handed out by `results`: the tests change their status in place and expect to read it back.
    handed_out: list = []

    @property
    def results(self):
        inspector = Inspector(BROKER)
        waiting = ("ready", "scheduled")
        ids = [id for queue in inspector.queues() for place in waiting for id, _ in inspector.listing(queue, place)]
        type(self).handed_out = [super(WaitingBackend, self).get_result(id) for id in sorted(ids)]
        return self.handed_out

    def clear(self):
        type(self).handed_out = []
        CLIENT.flushall()

    def get_result(self, result_id):
        self._write_through()
        return super().get_result(result_id)

    async def aget_result(self, result_id):
        await sync_to_async(self._write_through)()
        return await super().aget_result(result_id)

    def _write_through(self):
        """Carry out what a test did to a result by hand: it succeeded."""
        for result in self.handed_out:
            if result.status == TaskResultStatus.SUCCESSFUL:
                lease = claim_one([result.task.queue_name])
                if lease is not None:
                    assert lease.id == result.id
                    BROKER.exchange([Complete(lease, b'{"result": null}', 60_000)], None)


class InlineControl:
    """What a pool tells a running task, where nobody limits or cancels it."""

    child = "conformance.00000000"
    lease_lost = False
    cancel_requested = False

    def limit(self):
        return contextlib.nullcontext()

    def alimit(self):
        return contextlib.nullcontext()


class DrainingBackend(OneAttemptBackend):
    """The Immediate backend's way: when `enqueue` returns, the task has run. `aenqueue` goes through it."""

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        self._drain(result.task.queue_name)
        result.refresh()
        return result

    def _drain(self, queue):
        application = Application.connect(self.alias)
        while (lease := claim_one([queue])) is not None:
            perform = async_to_sync(application.aperform) if application.is_coroutine(lease) else application.perform
            outcome = perform(lease, InlineControl())
            settle(BROKER, lease, outcome)
            if isinstance(outcome, Failed) and outcome.error.error == "builtins.KeyboardInterrupt":
                raise KeyboardInterrupt
