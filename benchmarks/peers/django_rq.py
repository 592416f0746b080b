"""django-rq: RQ 3 with Django's settings and commands."""

from benchmarks.peers import _tasks
from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["django-rq==4.2.0", "Django==6.1.3", "rq==3.0.0", "redis==8.1.0", "hiredis==3.5.0"]
    site = "django_rq"
    variants = ["fork"]
    bulk = True
    plans = {"default": [{"conc": c} for c in (1, 2, 3)]}
    io_plans = {"default": {"conc": 16}}
    scales = {"fork": 0.1, "simple": 0.5}
    note = "result_ttl=0, so finished jobs are deleted at once"

    def worker(self, python, variant, plan):
        kind = "rq.worker.SimpleWorker" if variant == "simple" else "rq.worker.Worker"
        return [
            self.admin(
                python,
                "rqworker-pool",
                "default",
                "--num-workers",
                str(plan["conc"]),
                "--worker-class",
                kind,
                "--verbosity",
                "0",
            )
        ]

    def open(self):
        super().open()
        import django_rq

        self.queue = django_rq.get_queue("default")

    def enqueue(self, task, i, tag):
        self.queue.enqueue(getattr(_tasks, task), i, tag, result_ttl=0)

    def enqueue_many(self, task, numbers, tag):
        function, prepare = getattr(_tasks, task), self.queue.prepare_data
        self.queue.enqueue_many([prepare(function, (i, tag), result_ttl=0) for i in numbers])
