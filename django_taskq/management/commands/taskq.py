"""`manage.py taskq`: look after the queue, one sub-command for each thing to do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ...compat import DEFAULT_TASK_BACKEND_ALIAS
from ..actions import ACTIONS
from ..actions.base import find_backend


class Command(BaseCommand):
    help = "Look after the queue and its records."

    def add_arguments(self, parser: CommandParser) -> None:
        names = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name, action in ACTIONS.items():
            one = names.add_parser(name, help=action.help, description=action.help)
            one.add_argument("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, metavar="ALIAS", help="an entry of TASKS")
            one.add_argument("--json", action="store_true", help="print JSON")
            action.add_arguments(one)

    def handle(self, *args: Any, **options: Any) -> None:
        backend = find_backend(options["backend"])
        ACTIONS[options["action"]](backend, self.stdout, options).run()
