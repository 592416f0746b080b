"""What the harness asks of a django_taskq producer beside enqueueing (import after django.setup)."""

import statistics
import time
from datetime import UTC, datetime

import redis

from benchmarks import probe
from benchmarks.peers import _taskq_tasks as tasks
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.ids import new_id
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import Claim, NewRecord, State
from django_taskq.broker.settlements import Complete
from django_taskq.compat import task_backends

DAY_MS = 24 * 60 * 60 * 1000
PAGE = 1000
#: Leases in one claim, and settlements in one call: what a child with 16 threads does.
BATCH = 16


def _broker():
    return task_backends["default"].broker


def _envelope():
    """Return the envelope of a task that does nothing."""
    return Envelope(tasks.spend.wire_name, [1, probe.TAG]).to_bytes()


def fill(ready, scheduled):
    """Queue records of tasks that do nothing: some ready, some due in a day."""
    broker, envelope, start = _broker(), _envelope(), time.perf_counter()
    for count, delay_ms in ((ready, 0), (scheduled, DAY_MS)):
        for at in range(0, count, PAGE):
            size = min(PAGE, count - at)
            broker.enqueue([NewRecord(new_id(), "default", envelope, delay_ms=delay_ms) for _ in range(size)])
    return {"per_s": round((ready + scheduled) / (time.perf_counter() - start))}


def rates(n, repeats):
    """Measure enqueue, claim and settle; medians of the rates, and Redis's CPU for each record."""
    found = [_rates(n) for _ in range(repeats)]
    return {key: round(statistics.median(one[key] for one in found), 1) for key in found[0]}


def _rates(n):
    broker, envelope, clock = _broker(), _envelope(), _Clock(n)
    records = [NewRecord(new_id(), "default", envelope) for _ in range(n)]
    with clock.measuring("enqueue"):
        for record in records:
            broker.enqueue([record])
    leases = []
    with clock.measuring("claim"):
        while len(leases) < n:
            count = min(BATCH, n - len(leases))
            claimed = broker.claim(Claim("bench", time.time_ns() // 1000, count, 60_000, ("default",)))
            leases += claimed.leases
    with clock.measuring("settle"):
        for at in range(0, n, BATCH):
            broker.exchange([Complete(lease, b'{"result":null}') for lease in leases[at : at + BATCH]], None)
    return clock.found


class _Clock:
    """Measures what is done with `n` records."""

    def __init__(self, n):
        self.n, self.found, self.client = n, {}, redis.Redis.from_url(probe.REDIS_URL)

    def measuring(self, name):
        self.name = name
        return self

    def _cpu(self):
        info = self.client.info("cpu")
        return info["used_cpu_user"] + info["used_cpu_sys"]

    def __enter__(self):
        self.cpu, self.start = self._cpu(), time.perf_counter()

    def __exit__(self, *exception):
        self.found[f"{self.name}_per_s"] = self.n / (time.perf_counter() - self.start)
        self.found[f"{self.name}_redis_us"] = (self._cpu() - self.cpu) / self.n * 1e6


def first(i):
    """Enqueue one task that goes before the backlog."""
    tasks.noop.using(priority=100).enqueue(i, probe.TAG)
    return {}


def timed(n, start, gap_ms):
    """Schedule tasks that go before the backlog, and note on the board when each is due."""
    wall_ms = time.time_ns() // 1_000_000 + 1000
    offset = time.monotonic_ns() - time.time_ns()
    for i in range(n):
        due_ms = wall_ms + i * gap_ms
        due = datetime.fromtimestamp(due_ms // 1000, UTC).replace(microsecond=due_ms % 1000 * 1000)
        probe.enqueued(start + i, due_ms * 1_000_000 + offset)
        tasks.noop.using(priority=100, run_after=due).enqueue(start + i, probe.TAG)
    return {}


def settle(n, holding):
    """Enqueue tasks one by one; measure from each one's last line until its record says that it succeeded."""
    if holding:
        tasks.hold.enqueue_many([((1 + n * 0.03,), {}) for _ in range(holding)])
        time.sleep(0.5)
    inspector, delays = Inspector(_broker()), []
    for i in range(n):
        record_id, deadline = tasks.noop.enqueue(i, probe.TAG).id, time.monotonic() + 10
        while not probe.ended(i) and time.monotonic() < deadline:
            time.sleep(0.0002)
        while inspector.record(record_id).state is not State.SUCCEEDED:
            if time.monotonic() > deadline:
                raise RuntimeError(f"task {i} was not settled")
        delays.append((time.monotonic_ns() - probe.ended(i)) / 1e6)
        time.sleep(0.005)
    return {"delays_ms": delays}
