"""Processes of Node.js that tests start, ask and kill."""

from __future__ import annotations

import json
import signal
import subprocess

from tests.node.build import FOLDER
from tests.processes import LoggedProcess, is_alive
from tests.servers import die_with_parent


class NodeProcess(LoggedProcess):
    """A script of this folder, with its settings as JSON in its only argument."""

    def __init__(self, script, settings, log, **pipes):
        command = ["node", FOLDER / script, json.dumps(settings)]
        super().__init__(command, log, preexec_fn=die_with_parent, **pipes)

    @property
    def is_alive(self):
        return is_alive(self.pid)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(10)


class Hand(NodeProcess):
    """A producer and reader in Node.js, which does what it is asked, one thing after the other."""

    def __init__(self, settings, log):
        super().__init__("hand.mjs", settings, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, what, **arguments):
        """Have it do something, and return what came of it; what it threw is raised as `Refused`."""
        self.begin(what, **arguments)
        return self.answer()

    def begin(self, what, **arguments):
        self.process.stdin.write(json.dumps({"what": what, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"it ended:\n{self.log}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["done"]


class Refused(Exception):
    """What Node.js threw: its class and its message."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
