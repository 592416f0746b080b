"""django.tasks on Redis sorted sets and Lua (threadmill); needs Python 3.14."""

from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["threadmill[redis]==0.8.4", "Django==6.1.3", "redis==8.1.0", "hiredis==3.5.0"]
    interpreter = "BENCH_PYTHON314"
    site = "threadmill"
    variants = ["default"]
    # Prefetching is four times the threads unless it is said.
    plans = {
        "default": [
            {"procs": p, "threads": t, "prefetch": f}
            for p, t, f in (
                (1, 1, 4),
                (2, 1, 4),
                (1, 1, 64),
                (2, 1, 64),
                (2, 1, 256),
                (2, 2, 64),
                (2, 4, 16),
                (3, 1, 64),
            )
        ]
    }
    io_plans = {"default": {"procs": 2, "threads": 25, "prefetch": 100}}
    note = (
        "Python 3.14 with the GIL; results kept a day (result_ttl also ends worker processes, so it was not shortened)"
    )

    def worker(self, python, variant, plan):
        return [
            self.admin(
                python,
                "threadmill",
                "worker",
                "--workers",
                str(plan["procs"]),
                "--threads",
                str(plan["threads"]),
                "--prefetch-count",
                str(plan["prefetch"]),
            )
        ]

    def enqueue(self, task, i, tag):
        from benchmarks.peers import _dj_tasks

        getattr(_dj_tasks, task).enqueue(i, tag)
