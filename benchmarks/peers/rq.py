"""RQ 2: a worker pool of processes, forking for each job (default) or not (simple)."""

from benchmarks import probe
from benchmarks.peer import Peer

if probe.INSIDE:
    from benchmarks.peers import _tasks


class Adapter(Peer):
    requirements = ["rq==2.12.0", "redis==8.1.0", "hiredis==3.5.0"]
    variants = ["fork", "simple"]
    bulk = True
    plans = {"fork": [{"conc": c} for c in (1, 2, 3)], "simple": [{"conc": c} for c in (1, 2, 3, 4)]}
    io_plans = {"default": {"conc": 16}}
    scales = {"fork": 0.1, "simple": 0.5}
    note = "result_ttl=0, so finished jobs are deleted at once"

    def worker(self, python, variant, plan):
        kind = "rq.worker.SimpleWorker" if variant == "simple" else "rq.worker.Worker"
        return [
            [
                python.parent / "rq",
                "worker-pool",
                "bench",
                "-q",
                "-u",
                probe.REDIS_URL,
                "-n",
                str(plan["conc"]),
                "-w",
                kind,
            ]
        ]

    def open(self):
        import redis
        import rq

        self.queue = rq.Queue("bench", connection=redis.Redis.from_url(probe.REDIS_URL))

    def enqueue(self, task, i, tag):
        self.queue.enqueue(getattr(_tasks, task), i, tag, result_ttl=0)

    def enqueue_many(self, task, numbers, tag):
        function = getattr(_tasks, task)
        prepare = self.queue.prepare_data
        self.queue.enqueue_many([prepare(function, (i, tag), result_ttl=0) for i in numbers])
