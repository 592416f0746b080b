"""SAQ: asyncio on Redis."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from saq import Queue

    from benchmarks.peers import _tasks

    queue = Queue.from_url(probe.REDIS_URL)

    async def noop(ctx, *, i, tag):
        await _tasks.anoop(i, tag)

    async def nap(ctx, *, i, tag):
        await _tasks.anap(i, tag)

    settings = {"queue": queue, "functions": [noop, nap], "concurrency": int(probe.PLAN.get("conc", 10))}


class Adapter(Peer):
    requirements = ["saq[redis]==0.26.4", "redis==7.4.1", "hiredis==3.5.0", "typing_extensions==4.16.0"]
    variants = ["default"]
    plans = {"default": [{"procs": p, "conc": c} for p, c in ((1, 10), (2, 10), (2, 50))]}
    io_plans = {"default": {"procs": 1, "conc": 50}}
    scales = {"default": 0.5}
    note = "ttl=-1, so finished jobs are deleted at once"

    def worker(self, python, variant, plan):
        return [[python.parent / "saq", "benchmarks.peers.saq.settings", "--workers", str(plan["procs"])]]

    async def open(self):
        await queue.connect()

    async def enqueue(self, task, i, tag):
        await queue.enqueue(task, i=i, tag=tag, ttl=-1)
