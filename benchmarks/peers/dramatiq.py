"""Dramatiq on Redis: processes times threads, acknowledged after the run."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    from benchmarks.peers import _tasks

    dramatiq.set_broker(RedisBroker(url=probe.REDIS_URL))
    noop = dramatiq.actor(_tasks.noop)
    nap = dramatiq.actor(_tasks.nap)


class Adapter(Peer):
    requirements = ["dramatiq[redis]==2.2.1", "redis==8.1.0", "hiredis==3.5.0"]
    variants = ["default"]
    # Many threads pay even for no-ops, since prefetching is twice their number.
    plans = {"default": [{"procs": p, "threads": t} for p, t in ((1, 8), (1, 32), (2, 8), (2, 16), (2, 32), (2, 64))]}
    io_plans = {"default": {"procs": 2, "threads": 25}}
    note = "stock middleware; no result backend"

    def worker(self, python, variant, plan):
        return [
            [
                python.parent / "dramatiq",
                "benchmarks.peers.dramatiq",
                "--processes",
                str(plan["procs"]),
                "--threads",
                str(plan["threads"]),
            ]
        ]

    def enqueue(self, task, i, tag):
        (noop if task == "noop" else nap).send(i, tag)
