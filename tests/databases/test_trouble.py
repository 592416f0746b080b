"""A database in trouble: no task runs again for that, none has succeeded without its row, effects happen once."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from tests.waiting import wait_until

from . import effects, jobs
from .conftest import agrees, on_each
from .troubles import IMPATIENT, REFUSING, commits_slowly, make_clerk

pytestmark = pytest.mark.slow

SERVERS = ("postgresql", "mariadb")
#: A task of each kind of row: written at the end, there from the enqueue on, and closed with the effects.
TASKS = {"finished": jobs.count_up, "outbox": jobs.count_in_outbox, "atomic": effects.charge_slowly}


@pytest.fixture
def server(request, engine):
    return engine(request.node.callspec.params["entry"])


@pytest.fixture
def start(start_worker, entry, server):
    """Give a function that starts a worker which waits for nobody long."""

    def started():
        patience = {"OPTIONS": {**entry.get("OPTIONS", {}), **IMPATIENT[server.name]}}
        database = {**entry, **patience, **make_clerk(server)}
        return start_worker("--threads", "12", database=database, options={"lease_seconds": 1})

    effects.create()
    return started


def enqueue(until):
    """Enqueue two of each kind, and return the names and results of each."""
    return {
        kind: {name: task.enqueue(name, until=until) for name in (f"{kind} 1", f"{kind} 2")}
        for kind, task in TASKS.items()
    }


def pass_seconds(seconds):
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until)


@on_each(*SERVERS)
@pytest.mark.parametrize("trouble", REFUSING)
def test_what_needs_a_row_waits_for_it(start, database, server, inspector, ended, noted, notes, trouble):
    worker = start()
    enqueued = enqueue(until="go")
    results = {name: result for kind in enqueued.values() for name, result in kind.items()}
    noted(*[f"begin {name}" for name in results])
    # These come due meanwhile, and nobody can ask their rows whether they may begin.
    later = {
        kind: TASKS[kind].using(run_after=timedelta(seconds=2)).enqueue(f"later {kind}")
        for kind in ("outbox", "atomic")
    }
    with REFUSING[trouble](server):
        jobs.note("go")
        noted(*[f"end {name}" for name in results])
        # Longer than a lease.
        pass_seconds(2.5)
        waiting = [*enqueued["finished"].values(), *enqueued["outbox"].values()]
        assert {record.state for record in inspector.records([each.id for each in waiting])} == {"leased"}
        assert not [line for line in notes() if line.startswith("begin later")]
    records = ended(*results.values(), *later.values(), timeout=60)
    assert {record.state for record in records} == {"succeeded"}
    assert all(agrees(record) for record in records)
    for name in [*enqueued["finished"], *enqueued["outbox"], *(f"later {kind}" for kind in later)]:
        assert (notes().count(f"begin {name}"), notes().count(f"end {name}")) == (1, 1)
    # A body whose effects could not be committed has run again.
    assert effects.effects() == sorted([*enqueued["atomic"], "later atomic"])
    assert {record.attempts for record in ended(*waiting, *later.values())} == {1}
    assert worker.stop() == 0


@on_each(*SERVERS)
def test_a_write_that_takes_longer_than_a_lease_is_waited_for(start, database, server, ended, noted, notes):
    start()
    enqueued = enqueue(until="go")
    results = {name: result for kind in enqueued.values() for name, result in kind.items()}
    noted(*[f"begin {name}" for name in results])
    with commits_slowly(server):
        jobs.note("go")
        records = ended(*results.values(), timeout=40)
    assert all(agrees(record) for record in records)
    assert ({record.state for record in records}, {record.attempts for record in records}) == ({"succeeded"}, {1})
    assert all(notes().count(f"begin {name}") == 1 for name in results)
    assert effects.effects() == [*enqueued["atomic"]]
