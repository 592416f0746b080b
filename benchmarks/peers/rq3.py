"""RQ 3, the newest release: otherwise as the rq adapter."""

from benchmarks.peers.rq import Adapter as Rq


class Adapter(Rq):
    requirements = ["rq==3.0.0", "redis==8.1.0", "hiredis==3.5.0"]
