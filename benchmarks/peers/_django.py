"""What the Django adapters share."""

import os
import sys

from benchmarks.peer import Peer


class DjangoPeer(Peer):
    site = ""

    def site_for(self, variant):
        return self.site

    def env(self, variant):
        return {"DJANGO_SETTINGS_MODULE": "benchmarks.peers._settings", "BENCH_SITE": self.site_for(variant)}

    def admin(self, python, *args):
        return [python, "-m", "django", *args]

    def open(self):
        import django

        django.setup()

    def prepare(self):
        from django.conf import settings

        database = settings.DATABASES["default"]
        if database["ENGINE"].endswith("sqlite3"):
            for ending in ("", "-wal", "-shm"):
                if os.path.exists(database["NAME"] + ending):
                    os.unlink(database["NAME"] + ending)
        self.open()
        from django.core.management import call_command

        call_command("migrate", verbosity=0, stdout=sys.stderr)
