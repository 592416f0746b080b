"""BullMQ on Node.js, the best known queue on Redis + Lua: a reference from outside Python."""

import json
import shutil
import subprocess

from benchmarks.peer import HERE, Peer


class Adapter(Peer):
    requirements = ["bullmq@6.7.0", "ioredis@6.0.0"]  # npm packages
    variants = ["default"]
    bulk = True
    plans = {"default": [{"procs": p, "conc": c} for p, c in ((1, 50), (1, 200), (2, 50))]}
    io_plans = {"default": {"procs": 1, "conc": 50}}
    scales = {"default": 2}
    note = "Node.js; removeOnComplete=true, so finished jobs are deleted at once"

    def missing(self):
        lacking = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
        return f"install {' and '.join(lacking)} (Node.js)" if lacking else None

    def build(self, directory):
        stamp, wanted = directory / "requirements.txt", "\n".join(self.requirements)
        if not stamp.exists() or stamp.read_text() != wanted:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "package.json").write_text('{"private": true, "type": "module"}')
            subprocess.run(["npm", "install", "--silent", *self.requirements], cwd=directory, check=True)
            stamp.write_text(wanted)
        # Modules resolve from where the script lies, so it is run from a copy there.
        shutil.copy(HERE / "peers" / "bullmq.mjs", directory)
        self.script = directory / "bullmq.mjs"
        return directory / "node"

    def versions(self, python):
        listing = subprocess.run(
            ["npm", "ls", "--json", "--all"], cwd=self.script.parent, capture_output=True, text=True
        )
        tree = json.loads(listing.stdout)["dependencies"]
        node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
        found = {**tree, **tree["bullmq"].get("dependencies", {})}
        return [f"node {node.strip()}"] + [f"{k}@{v.get('version')}" for k, v in found.items() if "version" in v]

    def producer(self, python, action, options):
        return ["node", self.script, action, json.dumps(options)]

    def worker(self, python, variant, plan):
        options = json.dumps({"conc": plan["conc"]})
        return [["node", self.script, "work", options]] * plan["procs"]
