"""A person who looks at the queue now and then, cancels tasks, and retries or discards dead letters."""

from __future__ import annotations

import random
import sys
import time

import django

from tests.chaos.history import note
from tests.chaos.produce import Stopping

#: Seconds between two acts, and tasks that one is about, at most.
PAUSE, MOST = 0.5, 2


class Person:
    """Acts as the admin and the commands do."""

    def __init__(self, name: str, has_database: bool) -> None:
        from django_taskq.broker.inspector import Inspector
        from django_taskq.closing import Closing
        from django_taskq.compat import task_backends

        self.draw = random.Random(name)
        self.inspector = Inspector(task_backends["default"].broker)
        self.closing = Closing(self.inspector, has_database)

    def act(self) -> None:
        """Do one thing to some tasks."""
        verb, places = self.draw.choice([
            ("cancel", ("ready", "scheduled", "leased")), ("retry", ("dead",)), ("discard", ("dead",))
        ])  # fmt: skip
        seen = [pair for place in places for pair in self.inspector.listing("default", place)[:100]]
        chosen = self.draw.sample(seen, min(len(seen), self.draw.randint(1, MOST)))
        sent = time.monotonic()
        words: list[str | None] = [None] * len(chosen)
        for record_id, _ in chosen:  # who is killed now has acted, and can't say so
            note("person", id=record_id, verb=verb, word=None, sent=sent)
        try:
            given = [record_id for record_id, _ in chosen] if verb == "cancel" else chosen
            words = getattr(self.closing, verb)(given)
        finally:
            for (record_id, _), word in zip(chosen, words, strict=True):
                note("person", id=record_id, verb=verb, word=word, sent=sent)


def main(name: str) -> None:
    django.setup()
    from django.conf import settings
    from django.db import close_old_connections

    from django_taskq.broker.exceptions import TaskqError
    from django_taskq.worker.endings import NotRecorded

    person = Person(name, settings.HAS_DATABASE)
    stopping = Stopping()
    while not stopping:
        try:
            person.act()
        except (TaskqError, NotRecorded):
            pass  # such as these are what a chaos run is about
        if settings.HAS_DATABASE:
            close_old_connections()
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(sys.argv[1])
