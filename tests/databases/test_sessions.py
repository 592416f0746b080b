"""C74: database sessions end while a worker is idle, between tasks and in the middle of one."""

from __future__ import annotations

import pytest
from django.db import connections

from tests.waiting import wait_until

from . import jobs
from .conftest import agrees
from .routing import ALIAS

pytestmark = pytest.mark.slow

THREADS = 4
#: The threads, that of the coroutines and that of the rows, and two of the supervisor.
MOST_SESSIONS = THREADS + 4

AGES = [
    pytest.param("postgresql", {"CONN_MAX_AGE": None}, id="postgresql-for-ever"),
    pytest.param("postgresql", {"CONN_MAX_AGE": 0}, id="postgresql-closed-each-time"),
    pytest.param("postgresql", {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}, id="postgresql-checked"),
    pytest.param("mariadb", {"CONN_MAX_AGE": None}, id="mariadb-for-ever"),
    pytest.param("mariadb", {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}, id="mariadb-checked"),
]


@pytest.mark.parametrize(("entry", "more"), AGES, indirect=["entry"])
def test_c74_the_next_task_works_when_sessions_were_killed(
    request, entry, more, engine, database, start_worker, ended, noted, notes
):
    server = engine(request.node.callspec.params["entry"])
    worker = start_worker("--threads", str(THREADS), database={**entry, **more})
    records = ended(*[jobs.query.enqueue(f"first{n}") for n in range(8)])

    def kill():
        connections[ALIAS].close()
        return server.kill_sessions()

    # Idle, several times: the next tasks don't notice.
    for number in range(3):
        kill()
        records += ended(*[jobs.query.enqueue(f"idle{number}.{n}") for n in range(THREADS)])
    assert {record.attempts for record in records} == {1}

    # In the middle: the one task fails, its next attempt doesn't, and others never do.
    held = jobs.query.enqueue("held", until="go")
    noted("begin held 1")
    kill()
    others = ended(*[jobs.query.enqueue(f"other{n}") for n in range(THREADS * 2)])
    jobs.note("go")
    (broken,) = ended(held)
    assert {record.attempts for record in others} == {1}
    assert (broken.state, broken.attempts) == ("succeeded", 2)
    assert all(agrees(record) for record in [*records, *others, broken])

    connections[ALIAS].close()
    wait_until(lambda: len(server.sessions()) <= MOST_SESSIONS, what="few sessions")
    assert worker.stop() == 0
    wait_until(lambda: not server.sessions(), what="no session")
