"""django.tasks on Valkey or Redis lists (django-vtasks), with one asyncio worker.

sync   plain functions, each run in a thread by the worker, and enqueue()
async  coroutine functions on its event loop, and aenqueue()
"""

from benchmarks import probe
from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["django-vtasks[valkey]==3.2.0", "Django==6.1.3", "django-vcache==3.2.0", "uvloop==0.23.0"]
    site = "django_vtasks"
    variants = ["sync", "async"]
    own_producer = ("async",)
    bulk = True
    plans = {
        "default": [{"procs": p, "conc": c} for p, c in ((1, 20), (1, 50), (2, 4), (2, 8), (2, 20), (2, 50), (3, 8))]
    }
    # Plain functions go to asyncio's default executor: 6 threads a process on 2 cores.
    io_plans = {"sync": {"procs": 8, "conc": 6}, "async": {"procs": 1, "conc": 50}}
    note = "no results; uvloop, which its worker uses when present; its client is Rust"

    def worker(self, python, variant, plan):
        command = self.admin(python, "runworker", "--concurrency", str(plan["conc"]))
        return [command] * plan["procs"]

    def open(self):
        super().open()
        from benchmarks.peers import _dj_atasks, _dj_tasks

        self.tasks = _dj_atasks if probe.VARIANT == "async" else _dj_tasks

    if probe.VARIANT == "async":  # read by inside.py, in a producer of this variant

        async def enqueue(self, task, i, tag):
            await getattr(self.tasks, task).aenqueue(i, tag)

        async def enqueue_many(self, task, numbers, tag):
            from django.tasks import default_task_backend

            task = getattr(self.tasks, task)
            await default_task_backend.aenqueue_many([(task, (i, tag), {}) for i in numbers])
    else:

        def enqueue(self, task, i, tag):
            getattr(self.tasks, task).enqueue(i, tag)

        def enqueue_many(self, task, numbers, tag):
            from django.tasks import default_task_backend

            task = getattr(self.tasks, task)
            default_task_backend.enqueue_many([(task, (i, tag), {}) for i in numbers])
