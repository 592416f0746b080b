"""What Redis and redis-py themselves do here: the line no queue built on them can pass.

The producer writes one ready-made message of the usual size. The worker loops
without any of a queue's duties except those its variant names:

pop        BRPOP, run, repeat: one round trip a task, tasks of a dead worker are lost
lua        EVALSHA acknowledges the last task and claims the next into a sorted set
           of leases: one round trip a task, nothing is lost
lua-batch  the same, BATCH tasks at a time: one round trip a batch, nothing is lost
"""

import json
import time

from benchmarks import probe
from benchmarks.peer import Peer

BATCH = 64
#: KEYS queue, leases; ARGV how many, lease end, then the messages done with.
CLAIM = """
for i = 3, #ARGV do redis.call('ZREM', KEYS[2], ARGV[i]) end
local got = redis.call('RPOP', KEYS[1], ARGV[1])
if got then
  for i = 1, #got do redis.call('ZADD', KEYS[2], ARGV[2], got[i]) end
end
return got
"""


class Adapter(Peer):
    requirements = ["redis==8.1.0", "hiredis==3.5.0"]
    variants = ["pop", "lua", "lua-batch"]
    bulk = True
    plans = {"default": [{"procs": 1}, {"procs": 2}]}
    scales = {"default": 3, "lua-batch": 10}  # too quick to time otherwise
    io_plans = None  # 50 slots that sleep 10 ms: 5,000 tasks a second is arithmetic
    note = "no queue: the ceiling of redis-py + hiredis against Redis on this machine"

    def worker(self, python, variant, plan):
        return [[python, "-m", "benchmarks.peers.limit"]] * plan["procs"]

    def open(self):
        import redis

        self.redis = redis.Redis.from_url(probe.REDIS_URL)

    @staticmethod
    def message(task, i, tag):
        return json.dumps({"id": f"{i:032x}", "task": f"benchmarks.peers._tasks.{task}", "args": [i, tag]})

    def enqueue(self, task, i, tag):
        self.redis.lpush("queue", self.message(task, i, tag))

    def enqueue_many(self, task, numbers, tag):
        self.redis.lpush("queue", *[self.message(task, i, tag) for i in numbers])


def work():
    import redis

    from benchmarks.peers import _tasks

    client = redis.Redis.from_url(probe.REDIS_URL)
    claim = client.register_script(CLAIM)

    def run(message):
        call = json.loads(message)
        getattr(_tasks, call["task"].rpartition(".")[2])(*call["args"])

    many = BATCH if probe.VARIANT == "lua-batch" else 1
    done = []
    while True:
        if probe.VARIANT != "pop":
            got = claim(keys=["queue", "leases"], args=[many, time.time() + 60, *done]) or []
            for message in got:
                run(message)
            done = got
            if got:
                continue
        popped = client.brpop("queue", 1)
        if popped:
            run(popped[1])


if __name__ == "__main__":
    work()
