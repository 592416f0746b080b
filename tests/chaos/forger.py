"""Histories as a judge may be told them."""

from __future__ import annotations

import itertools

from tests.chaos.judge import judge


class Forger:
    """Forges a history, one event after the other; a second lies between two."""

    def __init__(self):
        self.events = []
        self._clock = itertools.count(100)

    def add(self, what, **fields):
        at = next(self._clock)
        event = {"what": what, "at": at, "who": "worker-0", "pid": 1, "sent": at - 0.5, **fields}
        self.events.append(event)
        return event

    def intent(self, call="c", task="work", answer="accepted", ordered=False, outbox=False, atomic=False, ids=("r",)):
        self.add("intent", call=call, task=task, ordered=ordered, outbox=outbox, atomic=atomic)
        if answer:
            self.add(answer, call=call, ids=list(ids))

    def attempt(self, token=10, number=1, script="complete", word="DONE", record="r", child="k", **by):
        """Claim, run and settle; without a script it doesn't end."""
        self.add("claim", id=record, token=token, attempt=number, child=child, **by)
        self.add("begin", id=record, call="c", token=token, attempt=number, **by)
        if script:
            self.add("effect", id=record, call="c", token=token, attempt=number, **by)
            self.add("end", id=record, call="c", token=token, attempt=number, **by)
            self.settle(token, script, word, record)

    def settle(self, token=10, script="complete", word="DONE", record="r", **more):
        self.add("settle", id=record, token=token, script=script, word=word, **more)

    def lose(self):
        self.add("fault", kind="flush Redis", since=self.events[-1]["at"] + 0.5, loses=True)

    def record(self, state="succeeded", token=10, attempts=1, most=3, result="c", history=((1, 10, None),), **more):
        more = {"id": "r", "call": "c", **more}
        self.add("record", state=state, token=token, attempts=attempts, most=most, result=result,
                 history=[list(one) for one in history], **more)  # fmt: skip

    def row(self, status="succeeded", token=10, attempts=1, result="c", outbox=True, **more):
        more = {"id": "r", "call": "c", **more}
        self.add("row", status=status, token=token, attempts=attempts, result=result, outbox=outbox, **more)

    def points(self):
        """Judge it, as a run that came to its end."""
        self.add("exit", worker="worker-0", code=0, ordered=True, served=True, began=0)
        self.add("drained", since=0)
        return [violation.point for violation in judge(self.events)]
