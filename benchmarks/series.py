"""A series: who is measured, in which order, and with which workers."""

import json
import platform
import subprocess
import time

from benchmarks import cases, probe
from benchmarks.bench import Bench, board_path
from benchmarks.peer import all_names, load
from benchmarks.processes import wait_quiet
from benchmarks.servers import PostgresServer, RedisServer, postgres_tools


class Output:
    """Writes each measurement as a line of JSON, and shows it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, line):
        text = json.dumps(line)
        print(text, flush=True)
        with self.path.open("a") as file:
            file.write(text + "\n")


class Plans:
    """The best worker size of each peer and variant, found once and kept on disk."""

    def __init__(self, settings, emit):
        self.settings, self.emit = settings, emit
        self.path = settings.cache / "plans.json"
        self.known = json.loads(self.path.read_text()) if self.path.exists() else {}
        self._tuned = set()

    def best(self, bench):
        choices = bench.peer.plans_for(bench.variant)
        if len(choices) == 1 or self.settings.smoke:
            return choices[0]
        again = self.settings.tune and bench.who not in self._tuned
        if again or self.known.get(bench.who) not in choices:
            self.known[bench.who] = self._search(bench, choices)
            self.path.write_text(json.dumps(self.known, indent=1))
        self._tuned.add(bench.who)
        return self.known[bench.who]

    def _search(self, bench, choices):
        n = max(200, int(4000 * bench.peer.scale_for(bench.variant)))
        about = {"peer": bench.peer.name, "variant": bench.variant, "case": "tune"}
        tried = []
        for plan in choices:
            try:
                tried.append((cases.throughput.drain(bench, n, plan)["per_s"], plan))
            except RuntimeError as error:
                self.emit({**about, "plan": plan, "error": str(error)[-500:]})
        self.emit({**about, "tried": tried})
        if not tried:
            raise RuntimeError("no plan worked")
        return max(tried, key=lambda pair: pair[0])[1]


class Series:
    """Runs the cases, round after round; within a round the peers of a case follow each other directly."""

    def __init__(self, settings):
        self.settings, self.emit = settings, Output(settings.out)
        self.plans = Plans(settings, self.emit)
        self.servers, self.redis, self.postgres = [], None, None

    def run(self):
        chosen = self._choose()
        if not chosen:
            raise SystemExit("nothing is left to measure")
        try:
            self._start(chosen)
            benches = [Bench(peer, variant, self.redis, self.postgres, self.settings) for peer, variant in chosen]
            self._describe(benches)
            self._measure(benches)
        finally:
            board_path(self.settings.cache).unlink(missing_ok=True)
            for server in self.servers:
                server.stop()

    def _choose(self):
        """Return the peers and variants that can run here; say what is missing for the others."""
        wanted = self.settings.peers
        if self.settings.all:
            wanted = ["django_taskq", "limit"] + [n for n in all_names() if n not in ("django_taskq", "limit")]
        chosen = []
        for item in wanted:
            name, _, only = item.partition(":")
            if name not in all_names():
                raise SystemExit(f"no peer is called {name!r}; there are {', '.join(all_names())}")
            peer = load(name)
            for variant in [only] if only else peer.variants:
                if missing := self._missing(peer, variant):
                    self.emit({"case": "left out", "who": f"{name}:{variant}", "why": missing})
                else:
                    chosen.append((peer, variant))
        return chosen

    def _missing(self, peer, variant):
        if variant not in peer.variants:
            return f"{peer.name} has only {', '.join(peer.variants)}"
        if peer.needs_postgres(variant) and postgres_tools() is None:
            return "install PostgreSQL"
        return peer.missing() or self._cannot_be_built(peer)

    def _cannot_be_built(self, peer):
        try:
            self.settings.python_for(peer)
        except (OSError, subprocess.SubprocessError) as error:
            return f"its environment can't be made: {error}"
        return None

    def _start(self, chosen):
        self.redis = RedisServer(self.settings.redis_port)
        self.servers.append(self.redis)
        probe.use_redis(self.redis.port)
        if any(peer.needs_postgres(variant) for peer, variant in chosen):
            self.postgres = PostgresServer(self.settings.pg_port)
            self.servers.append(self.postgres)

    def _describe(self, benches):
        """Note versions and settings, once for each peer."""
        model = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]  # noqa: SIM115
        postgres = self.postgres.query("SHOW server_version")[0] if self.postgres else None
        self.emit({
            "case": "machine", "python": platform.python_version(), "redis": self.redis.info()["redis_version"],
            "postgres": postgres, "system": platform.platform(), "cpus": len(model),
            "cpu": model[0].partition(":")[2].strip() if model else platform.machine(),
            "started": time.strftime("%Y-%m-%d %H:%M"),
        })  # fmt: skip
        for bench in {bench.peer.name: bench for bench in benches}.values():
            versions = bench.peer.versions(bench.python)
            self.emit({"case": "versions", "peer": bench.peer.name, "note": bench.peer.note, "requirements": versions})

    def _measure(self, benches):
        began = time.monotonic()
        for number in range(1, self.settings.rounds + 1):
            for name in self.settings.cases:
                if cases.CASES[name].once and number > 1:
                    continue
                for bench in benches:
                    if name not in bench.peer.cases(bench.variant):
                        continue
                    if time.monotonic() - began > self.settings.minutes * 60:
                        self.emit({"case": "stopped", "why": "out of time"})
                        return
                    self._one(bench, name, number)

    def _one(self, bench, name, number):
        peer, variant = bench.peer, bench.variant
        n = cases.size(name, peer, variant, self.settings)
        line = {"peer": peer.name, "variant": variant, "case": name, "n": n, "round": number}
        if self.settings.waits:
            line["busy_before_pct"] = wait_quiet()
        start = time.monotonic()
        try:
            measured_by_itself = hasattr(peer, "measure")  # redis-benchmark is no queue
            result = peer.measure(bench, name, n) if measured_by_itself else cases.run(name, bench, n, self.plans)
            if result is None:
                return
            line.update(bench.calibrate(), **result)
        except Exception as error:  # one broken peer must not end the series
            line["error"] = f"{type(error).__name__}: {error}"[-1500:]
        line["took_s"] = round(time.monotonic() - start, 1)
        self.emit(line)
