"""django.tasks on RQ (django-tasks-rq), the nearest neighbour of django_taskq."""

from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = [
        "django-tasks-rq==0.12.0",
        "Django==6.1.3",
        "django-tasks==0.12.0",
        "django-rq==4.2.0",
        "rq==3.0.0",
        "redis==8.1.0",
        "hiredis==3.5.0",
    ]
    site = "django_tasks_rq"
    variants = ["fork", "simple"]
    plans = {"fork": [{"conc": c} for c in (1, 2, 3)], "simple": [{"conc": c} for c in (1, 2, 3, 4)]}
    io_plans = {"default": {"conc": 16}}
    scales = {"fork": 0.1, "simple": 0.3}
    note = "results kept as its backend does"

    def worker(self, python, variant, plan):
        kind = "rq.worker.SimpleWorker" if variant == "simple" else "rq.worker.Worker"
        return [
            self.admin(
                python,
                "rqworker-pool",
                "default",
                "--num-workers",
                str(plan["conc"]),
                "--job-class",
                "django_tasks_rq.Job",
                "--worker-class",
                kind,
                "--verbosity",
                "0",
            )
        ]

    def enqueue(self, task, i, tag):
        from benchmarks.peers import _dj_tasks

        getattr(_dj_tasks, task).enqueue(i, tag)
