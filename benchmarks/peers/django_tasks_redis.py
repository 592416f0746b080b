"""django.tasks on Redis streams (django-tasks-redis): one task at a time a process."""

from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["django-tasks-redis==0.4.0", "Django==6.1.3", "redis==8.1.0", "hiredis==3.5.0"]
    site = "django_tasks_redis"
    variants = ["default"]
    plans = {"default": [{"procs": p} for p in (1, 2, 3, 4)]}
    io_plans = {"default": {"procs": 16}}
    scales = {"default": 0.3}
    note = "REDIS_COMPLETED_TASK_TTL=1, so finished tasks leave Redis after a second"

    def worker(self, python, variant, plan):
        return [self.admin(python, "run_redis_tasks", "--continuous")] * plan["procs"]

    def enqueue(self, task, i, tag):
        from benchmarks.peers import _dj_tasks

        getattr(_dj_tasks, task).enqueue(i, tag)
