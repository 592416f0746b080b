"""django-q2 on its Redis broker: BLPOP, so at most once."""

from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["django-q2==1.11.1", "Django==6.1.3", "redis==8.1.0", "hiredis==3.5.0"]
    site = "django_q2"
    variants = ["default"]
    plans = {"default": [{"conc": c} for c in (2, 4, 8)]}
    io_plans = {"default": {"conc": 16}}
    scales = {"default": 0.3}
    note = "at most once; save_limit=-1, so successes are not written to the database"

    def worker(self, python, variant, plan):
        return [self.admin(python, "qcluster")]

    def enqueue(self, task, i, tag):
        from django_q.tasks import async_task

        async_task(f"benchmarks.peers._tasks.{task}", i, tag)
