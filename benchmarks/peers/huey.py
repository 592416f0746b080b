"""Huey on Redis lists. BRPOP takes a task off the list, so one running when its
worker dies is lost: at most once."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from huey import RedisHuey

    from benchmarks.peers import _tasks

    app = RedisHuey("bench", url=probe.REDIS_URL)
    noop = app.task()(_tasks.noop)
    nap = app.task()(_tasks.nap)


class Adapter(Peer):
    requirements = ["huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"]
    variants = ["thread", "process"]
    plans = {"thread": [{"conc": c} for c in (1, 2, 8)], "process": [{"conc": c} for c in (1, 2, 3)]}
    io_plans = {"thread": {"conc": 50}, "process": {"conc": 16}}
    note = "at most once; None results are not stored (default)"

    def worker(self, python, variant, plan):
        return [
            [python.parent / "huey_consumer", "benchmarks.peers.huey.app", "-k", variant, "-w", str(plan["conc"]), "-q"]
        ]

    def enqueue(self, task, i, tag):
        (noop if task == "noop" else nap)(i, tag)
