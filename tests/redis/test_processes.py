"""C36: connections are one pool for a process and a URL, and no process uses another's."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from django_taskq.broker import client as clients
from django_taskq.broker.broker import Broker
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.ids import new_id
from django_taskq.broker.inspector import Inspector
from django_taskq.broker.records import NewRecord
from tests.broker.helpers import claim, put

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.leaves_keys(reason="thousands of waiting records"),
]


@pytest.fixture(autouse=True)
def _close_clients():
    yield
    clients.close_all()


def write_and_read(broker: Broker, label: str, count: int) -> list[str]:
    """Enqueue records with payloads of one's own and return the ids that didn't read back so."""
    inspector, wrong = Inspector(broker), []
    for start in range(0, count, 50):
        ids = [new_id() for _ in range(50)]
        records = [NewRecord(one, "q", Envelope("x", [label, one]).to_bytes()) for one in ids]
        answers = broker.enqueue(records)
        wrong += [one for one, answer in zip(ids, answers, strict=True) if (answer.word, answer.id) != ("STORED", one)]
        for one in ids[::10]:
            found = inspector.record(one)
            if found is None or found.envelope.args != [label, one]:
                wrong.append(one)
        found = inspector.records(ids)
        wrong += [one for one, record in zip(ids, found, strict=True) if record.envelope.args != [label, one]]
        broker.wait([f"none-{start}"], 0.01)
    return wrong


def _in_child(url: str, label: str, count: int, pipe) -> None:
    pipe.send(write_and_read(Broker.from_url(url), label, count))


def in_processes(method: str, url: str, children_count: int, count: int) -> list[list[str]]:
    context = multiprocessing.get_context(method)
    pipes, children = [], []
    for index in range(children_count):
        ours, theirs = context.Pipe(duplex=False)
        children.append(context.Process(target=_in_child, args=(url, f"{method}-{index}", count, theirs)))
        pipes.append(ours)
        children[-1].start()
        theirs.close()
    results = [pipe.recv() for pipe in pipes]
    for child in children:
        child.join(timeout=20)
        assert child.exitcode == 0
    return results


@pytest.mark.parametrize(("method", "children", "count"), [("fork", 8, 500), ("forkserver", 2, 100), ("spawn", 1, 100)])
def test_c36_children_of_a_process_that_used_the_queue_read_their_own(redis_url, method, children, count):
    broker = Broker.from_url(redis_url)
    put(broker, 3)
    broker.wait(["q"], 0.01)
    assert in_processes(method, redis_url, children, count) == [[]] * children
    assert write_and_read(broker, "parent", 100) == []
    assert len(set(_all_ids(broker))) == children * count + 103


def _all_ids(broker):
    return [record_id for record_id, _ in Inspector(broker).listing("q", "ready")]


def test_c36_children_forked_at_once_by_gunicorn_s_way_share_nothing(redis_url):
    """Forked by os.fork, with the broker object of the parent, as after `--preload`."""
    broker = Broker.from_url(redis_url)
    put(broker)
    children = []
    for index in range(8):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = int(write_and_read(broker, f"child-{index}", 100) != [])
            finally:
                os._exit(status)
        children.append(child)
    assert write_and_read(broker, "parent", 100) == []
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8


def test_c36_a_fork_while_threads_use_the_queue_finds_no_lock_held(redis_url):
    broker = Broker.from_url(redis_url)
    stop = threading.Event()
    threads = [threading.Thread(target=_use_until, args=(broker, stop)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for index in range(5):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = int(write_and_read(Broker.from_url(redis_url), f"child-{index}", 50) != [])
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _use_until(broker, stop):
    while not stop.is_set():
        put(broker)
        claim(broker)


def test_c36_the_parent_s_sockets_are_not_closed_by_a_child_s_end(redis_url):
    broker = Broker.from_url(redis_url)
    broker.ping()
    before = {one["id"] for one in broker.client.client_list()}
    child = os.fork()
    if child == 0:
        clients.close_all()
        Broker.from_url(redis_url).ping()
        clients.close_all()
        os._exit(0)
    os.waitpid(child, 0)
    broker.ping()
    assert {one["id"] for one in broker.client.client_list()} == before


def test_fifty_threads_share_one_pool(redis_url):
    brokers = [Broker.from_url(redis_url) for _ in range(50)]
    assert len({id(broker.client) for broker in brokers}) == 1
    wrong = []
    barrier = threading.Barrier(50, timeout=20)

    def use(index):
        barrier.wait()
        wrong.extend(write_and_read(brokers[index], f"thread-{index}", 50))

    threads = [threading.Thread(target=use, args=[index]) for index in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(brokers[0].client.client_list()) <= 2 * 50 + 1


def test_a_process_makes_one_client_for_a_url_whichever_thread_asks_first(redis_url):
    found = []
    barrier = threading.Barrier(20, timeout=30)

    def ask():
        barrier.wait()
        found.append((id(clients.connect(redis_url)), id(clients.connect_waiting(redis_url))))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
