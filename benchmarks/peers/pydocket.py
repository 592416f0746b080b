"""Docket: asyncio on Redis streams."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from datetime import timedelta

    from docket import Docket

    from benchmarks.peers import _tasks

    async def noop(i: int, tag: str) -> None:
        await _tasks.anoop(i, tag)

    async def nap(i: int, tag: str) -> None:
        await _tasks.anap(i, tag)

    tasks = [noop, nap]


class Adapter(Peer):
    requirements = ["pydocket==0.27.0", "redis==8.1.0", "hiredis==3.5.0"]
    variants = ["default"]
    bulk = True
    # From 250 slots a process on, redis-py's pool of 100 connections runs out and it stalls.
    plans = {"default": [{"procs": p, "conc": c} for p, c in ((1, 50), (2, 10), (2, 50), (2, 100))]}
    io_plans = {"default": {"procs": 1, "conc": 50}}
    scales = {"default": 0.4}
    note = "execution_ttl=0, so finished executions are not kept"

    def env(self, variant):
        return {"DOCKET_EXECUTION_TTL": "0"}

    def worker(self, python, variant, plan):
        return [
            [
                python.parent / "docket",
                "worker",
                "--tasks",
                "benchmarks.peers.pydocket:tasks",
                "--docket",
                "bench",
                "--url",
                probe.REDIS_URL,
                "--logging-level",
                "WARNING",
                "--concurrency",
                str(plan["conc"]),
            ]
        ] * plan["procs"]

    async def open(self):
        self.docket = Docket(name="bench", url=probe.REDIS_URL, execution_ttl=timedelta(0))
        await self.docket.__aenter__()

    async def enqueue(self, task, i, tag):
        await self.docket.add(noop if task == "noop" else nap)(i, tag)

    async def enqueue_many(self, task, numbers, tag):
        # One call() per task: it fixes the key, and equal keys are deduplicated.
        function = noop if task == "noop" else nap
        await self.docket.add_many([self.docket.call(function)(i, tag) for i in numbers])
