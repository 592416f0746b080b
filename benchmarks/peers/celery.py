"""Celery on its Redis transport. ``-late`` is acks_late, its at-least-once mode;
``-dj`` loads Django, so that Celery's Django fixup runs round every task."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from celery import Celery

    from benchmarks.peers import _tasks

    app = Celery("benchmarks.peers.celery", broker=probe.REDIS_URL)
    app.conf.task_acks_late = "late" in probe.VARIANT
    app.conf.worker_enable_remote_control = True
    app.conf.broker_connection_retry_on_startup = True
    noop = app.task(name="noop")(_tasks.noop)
    nap = app.task(name="nap")(_tasks.nap)

PREFETCH = [4, 64]  # the default, and what its guide suggests for many short tasks


class Adapter(Peer):
    requirements = ["celery[redis]==5.7.0", "redis==8.1.0", "hiredis==3.5.0", "gevent==26.9.0", "Django==6.1.3"]
    variants = ["prefork", "prefork-late", "prefork-late-dj", "threads-late", "gevent-late"]
    scales = {"default": 0.5}
    plans = {
        "default": [{"conc": c, "prefetch": p} for c in (1, 2) for p in PREFETCH],
        "threads-late": [{"conc": c, "prefetch": p} for c in (2, 8) for p in PREFETCH],
        "gevent-late": [{"conc": c, "prefetch": p} for c in (8, 50) for p in PREFETCH[:1]],
    }
    io_plans = {
        "default": {"conc": 16, "prefetch": 4},
        "threads-late": {"conc": 50, "prefetch": 4},
        "gevent-late": {"conc": 50, "prefetch": 4},
    }
    note = "no result backend; default serializer (JSON) and messages"

    def env(self, variant):
        return {"DJANGO_SETTINGS_MODULE": "benchmarks.peers._settings"} if "dj" in variant else {}

    def worker(self, python, variant, plan):
        return [
            [
                python,
                "-m",
                "celery",
                "-A",
                "benchmarks.peers.celery",
                "worker",
                "-P",
                variant.partition("-")[0],
                "-c",
                str(plan["conc"]),
                "--prefetch-multiplier",
                str(plan["prefetch"]),
                "-l",
                "WARNING",
            ]
        ]

    def enqueue(self, task, i, tag):
        (noop if task == "noop" else nap).delay(i, tag)
