"""`manage.py taskq queue`: what is done to a whole queue."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from ...broker.exceptions import TaskqError
from ...broker.inspector import Inspector
from ...conf import did_you_mean
from ...purging import has_rows, purge
from ..application import load_project
from .base import Action

_AGAIN = "Run it again to go on: what was cancelled stays so."


class Queue(Action):
    help = "Purge a queue: cancel all that waits in it."

    @classmethod
    def add_arguments(cls, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=["purge"], help="what to do")
        parser.add_argument("name", metavar="NAME", help="the queue")
        parser.add_argument("--yes", action="store_true", help="don't ask")

    def run(self) -> None:
        load_project()  # for the tasks that have rows of their own
        words: Counter[str] = Counter()
        try:
            self._ask()
            for page in purge(self._inspector, self._name, *self._rows):
                words.update(page)
        except (TaskqError, DatabaseError) as error:
            raise CommandError(f"{error}\n{_cancelled(words)} so far. {_AGAIN}") from error
        text = f"{_cancelled(words)} in {self._name!r}."
        if words["ASKED"]:
            text += f" {words['ASKED']:,} had begun to run, and were asked to stop."
        self.say(text, queue=self._name, cancelled=_count(words), asked=words["ASKED"])

    @property
    def _name(self) -> str:
        return str(self.options["name"])

    @property
    def _rows(self) -> tuple[str, bool]:
        """Whose rows are meant, and whether tasks have some by themselves."""
        return self.backend.alias, self.backend.conf.keeps_records

    @cached_property
    def _inspector(self) -> Inspector:
        return Inspector(self.backend.broker)

    def _ask(self) -> None:
        """Raise unless the queue is there and somebody wants it to be purged."""
        known = {*self._inspector.queues(), *self.backend.queues}
        if self._name not in known and not has_rows(self._name, *self._rows):
            raise CommandError(f"There is no queue {self._name!r}.{did_you_mean(self._name, known)}")
        if self.options["yes"]:
            return
        counts = self._inspector.counts([self._name])[self._name]
        question = f"Cancel all that waits in {self._name!r} ({counts.ready + counts.scheduled:,})? [y/N] "
        try:
            answer = "" if self.options["json"] else input(question)
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was cancelled. Where nobody is asked, --yes says that it is meant.")


def _count(words: Counter[str]) -> int:
    """Return how many were cancelled: in Redis, and where only rows knew of them."""
    return words["DONE"] + words["MISSING"]


def _cancelled(words: Counter[str]) -> str:
    return f"Cancelled {_count(words):,} task{'' if _count(words) == 1 else 's'}"
