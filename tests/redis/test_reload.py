"""A server that lost the scripts (a restart, a failover, SCRIPT FLUSH) is told them again, each one alone."""

from __future__ import annotations

import pytest

from django_taskq.broker import scripts
from django_taskq.broker.settlements import Bury, Complete, Release, Retry
from tests.broker.helpers import ERROR, RESULT, claim, put, read, record, request
from tests.servers import chosen_names

pytestmark = pytest.mark.parametrize("server", [name for name in chosen_names() if name != "fakeredis"], indirect=True)


def commands(broker, monkeypatch):
    """Note the commands that a broker's client sends, pipelined ones too."""
    sent = []
    execute, pipeline = broker.client.execute_command, broker.client.pipeline

    def piped(*arguments, **options):
        made = pipeline(*arguments, **options)
        add = made.execute_command
        made.execute_command = lambda *command, **rest: sent.append(command[0]) or add(*command, **rest)
        return made

    monkeypatch.setattr(broker.client, "execute_command", lambda *c, **o: sent.append(c[0]) or execute(*c, **o))
    monkeypatch.setattr(broker.client, "pipeline", piped)
    return sent


def test_an_unknown_script_is_sent_once_with_its_text(broker, monkeypatch):
    broker.client.script_flush()
    sent = commands(broker, monkeypatch)
    put(broker)
    put(broker)
    assert sent == ["EVALSHA", "EVAL", "EVALSHA"]


def test_after_a_flush_between_two_calls_nothing_is_lost_or_doubled(broker):
    ids = []
    for _ in range(3):
        ids += put(broker)
        broker.client.script_flush()
    assert [lease.id for lease in claim(broker, 10).leases] == ids


def test_of_a_pipeline_only_the_unknown_ones_are_sent_again(broker, monkeypatch):
    put(broker, 3)
    leases = claim(broker, 2).leases
    broker.client.script_flush()
    broker.client.script_load(scripts.load("complete").text)
    sent = commands(broker, monkeypatch)
    words, claimed = broker.exchange([Complete(leases[0], RESULT), Retry(leases[1], 60_000, ERROR)], request())
    assert sent == ["EVALSHA"] * 3 + ["EVAL"] * 2
    assert words == ["DONE", "DONE"]
    assert len(claimed.leases) == 1
    assert [len(read(broker, lease.id).history) for lease in leases] == [1, 1]


def test_a_whole_pipeline_is_sent_again(broker):
    put(broker, 4)
    leases = claim(broker, 4).leases
    settlements = [Complete(leases[0], RESULT), Retry(leases[1], 0, ERROR), Bury(leases[2], ERROR), Release(leases[3])]
    broker.client.script_flush()
    words, claimed = broker.exchange(settlements, request(5))
    assert words == ["DONE"] * 4
    assert [lease.id for lease in claimed.leases] == [leases[3].id, leases[1].id]


def test_a_text_that_is_sent_is_the_one_of_the_hash(broker):
    broker.client.script_flush()
    broker.enqueue([record()])
    assert broker.client.script_exists(scripts.load("enqueue").sha) == [True]
