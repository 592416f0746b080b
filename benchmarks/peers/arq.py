"""arq: asyncio, one process runs many coroutines; two processes use both cores."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from arq import create_pool
    from arq.connections import RedisSettings

    from benchmarks.peers import _tasks

    SETTINGS = RedisSettings(host=probe.REDIS_HOST, port=probe.REDIS_PORT)

    async def noop(ctx, i, tag):
        await _tasks.anoop(i, tag)

    async def nap(ctx, i, tag):
        await _tasks.anap(i, tag)

    class WorkerSettings:
        functions = [noop, nap]
        redis_settings = SETTINGS
        keep_result = 0
        max_jobs = int(probe.PLAN.get("conc", 10))


class Adapter(Peer):
    requirements = ["arq==0.28.0", "redis==5.3.1", "hiredis==3.5.0"]
    variants = ["default"]
    # A poll fetches five times max_jobs, twice a second, so max_jobs bounds the rate.
    plans = {"default": [{"procs": p, "conc": c} for p, c in ((2, 10), (2, 50), (2, 250), (2, 1000))]}
    io_plans = {"default": {"procs": 1, "conc": 50}}
    scales = {"default": 0.5}
    note = "keep_result=0; the default poll_delay of 0.5 s sets the latency"

    def worker(self, python, variant, plan):
        return [[python.parent / "arq", "benchmarks.peers.arq.WorkerSettings"]] * plan["procs"]

    async def open(self):
        self.pool = await create_pool(SETTINGS)

    async def enqueue(self, task, i, tag):
        await self.pool.enqueue_job(task, i, tag)
