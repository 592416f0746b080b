"""What a series of measurements is told: the command line, and the environments that it makes."""

import argparse
import pathlib
import sys
import tempfile
import time

from benchmarks.cases import CASES

#: The peers of a quick run: ours, and those that its targets are compared with.
QUICK = ("django_taskq", "bullmq", "dramatiq", "huey:thread", "limit")
#: Where the targets name a size, a full run takes it.
FULL = {"growth": 1_000_000, "idle": 30, "idle-queues": 30}


def sized(text):
    """Parse CASE=N, or N for all cases."""
    name, _, number = text.rpartition("=")
    if name and name not in CASES:
        raise argparse.ArgumentTypeError(f"no case is called {name!r}: {', '.join(CASES)}")
    return name, int(number)


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure task queues beside each other.")
    add = parser.add_argument
    add("--peer", action="append", help=f"NAME or NAME:VARIANT; may be repeated; default: {', '.join(QUICK)}")
    add("--all", action="store_true", help="every peer in peers/")
    add("--case", action="append", choices=list(CASES), help="may be repeated; default: all that a peer takes part in")
    add("--rounds", type=int, help="how often peers take turns; default 1, with --full 3")
    add("--full", action="store_true", help="the sizes that the targets name (growth with 1,000,000), three rounds")
    add("--n", action="append", type=sized, default=[], metavar="CASE=N", help="tasks (seconds for idle cases)")
    add("--tune", action="store_true", help="look for the best number of processes and threads again")
    add("--out", type=pathlib.Path, help="append JSON lines here; default: a new file in the cache")
    add("--limit-s", type=float, default=60, help="most seconds for one drain")
    add("--no-wait", action="store_true", help="don't wait for a quiet machine before each measurement")
    add("--minutes", type=float, default=180, help="start nothing more after so many minutes")
    add("--cache", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), "taskq-bench"))
    add("--redis-port", type=int, default=0, help="default: a free one")
    add("--pg-port", type=int, default=0, help="default: a free one")
    add("--smoke", action="store_true", help="tiny sizes and no waiting: does it all work?")
    add("--no-venv", action="store_true", help="run Python peers in this interpreter, which has what they need")
    return Settings(parser.parse_args(argv))


class Settings:
    """The arguments of a series, and what follows from them."""

    def __init__(self, args):
        self.smoke, self.no_venv, self.limit_s, self.minutes = args.smoke, args.no_venv, args.limit_s, args.minutes
        self.waits = not (args.no_wait or args.smoke)
        self.tune = args.tune
        self.rounds = args.rounds or (3 if args.full else 1)
        self.redis_port, self.pg_port = args.redis_port, args.pg_port
        self.peers, self.all, self.cases = args.peer or QUICK, args.all, args.case or list(CASES)
        self.sizes = FULL.copy() if args.full else {}
        for name, number in args.n:
            self.sizes |= {name: number} if name else dict.fromkeys(CASES, number)
        self.cache = args.cache
        self.cache.mkdir(parents=True, exist_ok=True)
        self.out = args.out or self.cache / time.strftime("results-%Y%m%d-%H%M%S.jsonl")
        self._pythons = {}

    def python_for(self, peer):
        """Return the interpreter of a peer's environment, made or brought up to date."""
        if self.no_venv:
            return pathlib.Path(sys.executable)
        if peer.name not in self._pythons:
            self._pythons[peer.name] = peer.build(self.cache / "venvs" / peer.name)
        return self._pythons[peer.name]
