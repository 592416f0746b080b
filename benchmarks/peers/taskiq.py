"""taskiq-redis: a plain list (at most once) or a stream (at least once)."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from taskiq_redis import ListQueueBroker, RedisStreamBroker

    from benchmarks.peers import _tasks

    broker = (RedisStreamBroker if probe.VARIANT == "stream" else ListQueueBroker)(probe.REDIS_URL)
    noop = broker.task(task_name="noop")(_tasks.anoop)
    nap = broker.task(task_name="nap")(_tasks.anap)


class Adapter(Peer):
    requirements = ["taskiq==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0", "hiredis==3.5.0", "uvloop==0.23.0"]
    variants = ["stream", "list"]
    own_producer = ("list",)
    plans = {"default": [{"procs": p, "conc": c} for p, c in ((1, 100), (2, 10), (2, 100))]}
    io_plans = {"default": {"procs": 1, "conc": 50}}
    note = "no result backend; uvloop, which its worker uses when present"

    def worker(self, python, variant, plan):
        return [
            [
                python.parent / "taskiq",
                "worker",
                "benchmarks.peers.taskiq:broker",
                "--workers",
                str(plan["procs"]),
                "--max-async-tasks",
                str(plan["conc"]),
                "--log-level",
                "WARNING",
            ]
        ]

    async def open(self):
        await broker.startup()

    async def enqueue(self, task, i, tag):
        await (noop if task == "noop" else nap).kiq(i, tag)
