"""`manage.py taskq prune`: delete old rows."""

from __future__ import annotations

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from ...outbox import record_aliases
from ...pruning import BATCH, prune
from .base import Action, count, duration


class Prune(Action):
    help = "Delete the records of tasks that ended long ago from the database."

    @classmethod
    def add_arguments(cls, parser: CommandParser) -> None:
        age = "age to delete from, as 12h, 30d or 2w, or in seconds; default: the option records_ttl"
        parser.add_argument("--older-than", type=duration, metavar="AGE", help=age)
        parser.add_argument("--batch", type=count, default=BATCH, metavar="N", help="rows in one transaction")

    def run(self) -> None:
        age: float | None = self.options["older_than"]
        if age is None:
            age = self.backend.conf.records_ttl
        if age is None:
            raise CommandError("The backend has no records_ttl, so say --older-than.", returncode=2)
        try:
            deleted = sum(
                prune(self.backend.alias, age, database=alias, batch=self.options["batch"]).deleted
                for alias in sorted(record_aliases(keeps_records=True))
            )
        except DatabaseError as error:
            raise CommandError(f"The database refused: {error}") from error
        self.say(f"Deleted {deleted:,} task record{'' if deleted == 1 else 's'}.", deleted=deleted)
