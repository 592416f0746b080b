"""TaskTiger: forks for each task (default) or runs it in the worker (sync)."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    import redis
    from tasktiger import TaskTiger

    from benchmarks.peers import _tasks


class Adapter(Peer):
    requirements = ["tasktiger==0.26.3", "redis==4.6.0", "hiredis==3.5.0"]
    variants = ["fork", "sync"]
    plans = {"default": [{"procs": p} for p in (1, 2, 3)]}
    io_plans = {"default": {"procs": 16}}
    scales = {"fork": 0.05, "sync": 0.2}
    note = ""

    def worker(self, python, variant, plan):
        return [
            [
                python.parent / "tasktiger",
                "-p",
                str(probe.REDIS_PORT),
                "-m",
                "benchmarks.peers._tasks",
                "--executor",
                variant,
            ]
        ] * plan["procs"]

    def open(self):
        connection = redis.Redis(port=probe.REDIS_PORT, decode_responses=True)
        self.tiger = TaskTiger(connection=connection)

    def enqueue(self, task, i, tag):
        self.tiger.delay(getattr(_tasks, task), args=(i, tag))
