"""procrastinate on PostgreSQL with its Django integration."""

from benchmarks.peers._django import DjangoPeer


class Adapter(DjangoPeer):
    requirements = ["procrastinate[django]==3.10.0", "Django==6.1.3", "psycopg[binary]==3.3.9", "psycopg-pool==3.3.3"]
    broker = "postgres"
    site = "procrastinate"
    variants = ["default"]
    bulk = True
    plans = {"default": [{"conc": c} for c in (1, 8, 20)]}
    io_plans = {"default": {"conc": 50}}
    scales = {"default": 0.15}
    note = "PostgreSQL with durable commits; finished jobs are deleted"

    def env(self, variant):
        return {**super().env(variant), "PROCRASTINATE_APP": "benchmarks.peers._procrastinate_app.app"}

    def worker(self, python, variant, plan):
        return [
            [
                python.parent / "procrastinate",
                "--app",
                "benchmarks.peers._procrastinate_app.app",
                "worker",
                "--concurrency",
                str(plan["conc"]),
                "--delete-jobs",
                "successful",
            ]
        ]

    def open(self):
        super().open()
        from benchmarks.peers import _procrastinate_app

        self.tasks = _procrastinate_app

    def enqueue(self, task, i, tag):
        getattr(self.tasks, task).defer(i=i, tag=tag)

    def enqueue_many(self, task, numbers, tag):
        getattr(self.tasks, task).batch_defer(*[{"i": i, "tag": tag} for i in numbers])
