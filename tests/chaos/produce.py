"""One producer: enqueues until it is told to stop, and notes what it intends and what it is answered."""

from __future__ import annotations

import random
import signal
import sys
import time
from datetime import timedelta

import django
from asgiref.sync import async_to_sync

from tests.chaos.history import note

#: Seconds between two enqueues.
PAUSE = 0.03
#: How long tasks take, in seconds: most of them no time, and few of them longer than a lease.
LENGTHS = [0.0, 0.005, 0.02, 0.2, 1.0, 5.0], [50, 20, 15, 10, 4, 1]


class RolledBack(Exception):
    """The transaction ends with nothing."""


class Stopping:
    """True once this process was told to end."""

    def __init__(self) -> None:
        self._is_told = False
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, *_: object) -> None:
        self._is_told = True

    def __bool__(self) -> bool:
        return self._is_told


class Producer:
    """Draws what to enqueue, and how."""

    def __init__(self, name: str, has_database: bool) -> None:
        from tests.chaos import jobs

        self.kinds = jobs.mixture()
        if has_database:
            from tests.chaos import durable  # It needs models.

            self.kinds |= durable.mixture()
        self.name = name
        self.draw = random.Random(name)
        self.has_database = has_database
        self.count = 0

    def work(self) -> None:
        """Enqueue one task, in one of the ways."""
        task = self.draw.choices(list(self.kinds), list(self.kinds.values()))[0]
        ways = [self.plainly, self.by_coroutine, self.deferred, self.keyed, self.many]
        if self.has_database:
            ways += [self.in_transaction] * 3
        self.draw.choice(ways)(task)
        time.sleep(PAUSE)

    def plainly(self, task) -> None:
        self.enqueue(task, lambda arguments: [task.enqueue(*arguments)])

    def by_coroutine(self, task) -> None:
        self.enqueue(task, lambda arguments: [async_to_sync(task.aenqueue)(*arguments)])

    def deferred(self, task) -> None:
        later = task.using(run_after=timedelta(seconds=self.draw.choice([0.1, 1, 3])))
        self.enqueue(task, lambda arguments: [later.enqueue(*arguments)])

    def keyed(self, task) -> None:
        """Enqueue twice under one key; the second gets the first one's result."""
        keyed = task.using(idempotency_key=f"{self.name}-{self.count}")
        self.enqueue(task, lambda arguments: [keyed.enqueue(*arguments), keyed.enqueue(*arguments)])

    def many(self, task) -> None:
        self.enqueue(task, lambda arguments: task.enqueue_many([(arguments, {})] * 3))

    def in_transaction(self, task) -> None:
        """Enqueue beside an order, which is committed or rolled back with it."""
        from django.db import transaction

        from tests.chaos.models import Order

        def enqueue(arguments):
            with transaction.atomic():
                Order.objects.create(call=arguments[0])
                result = task.enqueue(*arguments)
                if self.draw.random() < 0.1:
                    note("rolled back", call=arguments[0], id=result.id)
                    raise RolledBack
            return [result]

        self.enqueue(task, enqueue, ordered=True)

    def enqueue(self, task, way, ordered=False) -> None:
        """Note the intent, enqueue, and note the answer."""
        from django_taskq.broker.exceptions import EnqueueError

        self.count += 1
        call = f"{self.name}-{self.count}"
        kept = {"ordered": ordered, "outbox": bool(task.outbox or task.atomic), "atomic": bool(task.atomic)}
        seconds = self.draw.choices(*LENGTHS)[0]
        note("intent", call=call, task=task.func.__name__, **kept)
        try:
            results = way((call, seconds))
        except RolledBack:
            pass
        except EnqueueError as error:
            note("unknown" if error.maybe_stored else "refused", call=call, ids=error.ids, error=repr(error))
        except Exception as error:  # of the database: nobody knows whether it committed
            note("unknown", call=call, ids=[], error=repr(error)[:500])
        else:
            note("accepted", call=call, ids=[result.id for result in results])


def main(name: str) -> None:
    django.setup()
    from django.conf import settings
    from django.db import close_old_connections

    producer = Producer(name, settings.HAS_DATABASE)
    stopping = Stopping()
    while not stopping:
        producer.work()
        if producer.has_database:
            close_old_connections()


if __name__ == "__main__":
    main(sys.argv[1])
