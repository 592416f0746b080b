"""Random interleavings on a real server keep every promise of the protocol.

``TASKQ_CHECKER_STEPS`` says how many steps are taken (CI: 50,000), ``TASKQ_CHECKER_SEED`` which ones.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from .machine import explore, report

STEPS = int(os.environ.get("TASKQ_CHECKER_STEPS") or 3_000)
SEED = int(os.environ.get("TASKQ_CHECKER_SEED") or random.randrange(10**6))
#: Steps from which on every answer must have been met.
MANY = 30_000

ANSWERS = {
    "enqueue": "STORED EXISTS TAKEN",
    "claim": "STALE again",
    "lease": "again",
    "renew": "OK LOST CANCEL",
    "complete": "DONE ALREADY LEASE_LOST ORPHANED",
    "retry": "DONE ALREADY LEASE_LOST CANCELLED HELD ORPHANED",
    "bury": "DONE ALREADY LEASE_LOST CANCELLED",
    "release": "DONE ALREADY LEASE_LOST CANCELLED",
    "promote": "DONE MISSING",
    "cancel": "DONE ASKED ALREADY ENDED",
    "requeue": "DONE CHANGED TAKEN",
    "discard": "DONE CHANGED",
}


@pytest.mark.timeout(1200)
def test_every_promise_holds_in_random_interleavings(new_lab, capsys):
    lab = new_lab()
    started_at = time.perf_counter()
    try:
        explore(lab, SEED, STEPS, shrink=True)
    finally:
        summary, *details = report(lab, started_at).split("\n")
        with capsys.disabled():
            print(f"\nTASKQ_CHECKER_SEED={SEED}: {summary}")
        print("\n".join(details))
    assert lab.steps >= STEPS
    expected = {f"{script} {word}" for script, words in ANSWERS.items() for word in words.split()}
    assert STEPS < MANY or not expected - lab.words.keys()
