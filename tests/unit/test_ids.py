from __future__ import annotations

import multiprocessing
import os
import re
import threading
import time

import pytest

from django_taskq.broker import ids
from django_taskq.broker.ids import new_id
from django_taskq.broker.keys import check_id


def test_an_id_is_a_ulid_of_now():
    drawn = new_id()
    assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", drawn)
    assert check_id(drawn) == drawn
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    milliseconds = 0
    for character in drawn[:10]:
        milliseconds = milliseconds * 32 + alphabet.index(character)
    assert abs(milliseconds - time.time() * 1000) < 60_000


def test_ids_grow_within_a_millisecond_too():
    drawn = [new_id() for _ in range(20_000)]
    assert drawn == sorted(set(drawn))


def test_ids_of_many_threads_differ_and_each_thread_s_grow():
    drawn = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=lambda mine: mine.extend(new_id() for _ in range(2000)), args=[mine]) for mine in drawn
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in drawn)
    assert len({one for mine in drawn for one in mine}) == 16_000


def test_ids_grow_when_the_clock_goes_back(monkeypatch):
    before = new_id()
    moment = time.time_ns()
    monkeypatch.setattr(ids.time, "time_ns", lambda: moment - 3600 * 10**9)
    later = [new_id() for _ in range(3)]
    assert [before, *later] == sorted([before, *later])


def test_the_random_part_counts_up_without_overflow(monkeypatch):
    moment = time.time_ns()
    monkeypatch.setattr(ids.time, "time_ns", lambda: moment)
    monkeypatch.setattr(ids.os, "urandom", lambda size: b"\xff" * size)
    monkeypatch.setattr(ids, "_source", ids._Source())
    drawn = [new_id() for _ in range(1000)]
    assert drawn == sorted(set(drawn))
    assert len({one[:10] for one in drawn}) == 1


def _draw(queue):
    queue.put([new_id() for _ in range(500)])


@pytest.mark.filterwarnings("ignore:This process")
def test_forked_children_draw_other_ids_than_each_other_and_their_parent(monkeypatch):
    moment = time.time_ns()
    monkeypatch.setattr(ids.time, "time_ns", lambda: moment)  # all in one millisecond
    new_id()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    children = [context.Process(target=_draw, args=[queue]) for _ in range(4)]
    for child in children:
        child.start()
    drawn = [one for _ in children for one in queue.get()]
    for child in children:
        child.join()
    drawn += [new_id() for _ in range(500)]
    assert len(set(drawn)) == 2500


def test_a_fork_while_a_thread_draws_leaves_the_child_no_locked_source():
    with ids._source._lock:
        child = os.fork()
        if child == 0:
            new_id()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
