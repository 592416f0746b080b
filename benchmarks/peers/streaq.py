"""streaQ: asyncio on Redis streams with Lua scripts, batched reads."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from streaq import Worker

    from benchmarks.peers import _tasks

    worker = Worker(redis_url=probe.REDIS_URL, concurrency=int(probe.PLAN.get("conc", 16)))
    noop = worker.task(name="noop", ttl=0)(_tasks.anoop)
    nap = worker.task(name="nap", ttl=0)(_tasks.anap)


class Adapter(Peer):
    requirements = ["streaq==7.2.0"]
    variants = ["default"]
    bulk = True
    plans = {"default": [{"procs": p, "conc": c} for p, c in ((1, 16), (1, 64), (2, 16), (2, 64))]}
    io_plans = {"default": {"procs": 1, "conc": 50}}
    scales = {"default": 0.5}
    note = "ttl=0, so results are not kept"

    def worker(self, python, variant, plan):
        return [[python.parent / "streaq", "run", "benchmarks.peers.streaq:worker", "--workers", str(plan["procs"])]]

    async def open(self):
        await worker.__aenter__()

    async def enqueue(self, task, i, tag):
        await (noop if task == "noop" else nap).enqueue(i, tag)

    async def enqueue_many(self, task, numbers, tag):
        function = noop if task == "noop" else nap
        await worker.enqueue_many([function.enqueue(i, tag) for i in numbers])
