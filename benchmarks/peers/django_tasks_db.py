"""django.tasks in the project's own database (django-tasks-db)."""

from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["django-tasks-db==0.13.0", "Django==6.1.3", "psycopg[binary]==3.3.9"]
    variants = ["sqlite", "postgres"]
    own_producer = ("postgres",)
    plans = {"default": [{"procs": p} for p in (1, 2, 3, 4)]}
    io_plans = {"default": {"procs": 8}}
    scales = {"default": 0.15}
    note = "worker --interval stays at its default of 1 s, which sets the latency"

    def broker_for(self, variant):
        return variant

    def site_for(self, variant):
        return "django_tasks_db_pg" if variant == "postgres" else "django_tasks_db"

    def worker(self, python, variant, plan):
        command = self.admin(python, "db_worker", "--no-startup-delay", "--no-reload")
        return [command] * plan["procs"]

    def enqueue(self, task, i, tag):
        from benchmarks.peers import _dj_tasks

        getattr(_dj_tasks, task).enqueue(i, tag)
