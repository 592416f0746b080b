"""What the checker stands on behaves as the real thing: keys that expire by the test's clock, and lossy requests."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError, TimeoutError

from django_taskq.broker import scripts

from .shim import EPOCH, SHIM
from .view import TICK

NOW = "local now = redis.call('TIME')\nnow = now[1] * 1000 + math.floor(now[2] / 1000)\n"


def cancel():
    return "EVALSHA", scripts.load("cancel").sha, 1, "{t}:queues", 1000, "id"


@pytest.fixture
def lab(new_lab):
    lab = new_lab()
    lab.server.flushall()
    lab.server.eval(TICK, 0, EPOCH)
    lab.wire.load_scripts()
    lab.wire.look()
    return lab


@pytest.mark.parametrize(
    "script",
    [
        "redis.call('SET', 'k', 'v'); return redis.call('PTTL', 'k')",
        "redis.call('SET', 'k', 'v', 'PX', 60000); return redis.call('PTTL', 'k')",
        "redis.call('SET', 'k', 'v', 'PX', 60000); redis.call('SET', 'k', 'w'); return redis.call('PTTL', 'k')",
        "redis.call('HSET', 'k', 'f', 'v'); redis.call('PEXPIRE', 'k', 60000); return redis.call('PTTL', 'k')",
        "redis.call('HSET', 'k', 'f', 'v'); redis.call('PEXPIREAT', 'k', now + 60000); return redis.call('PTTL', 'k')",
        "redis.call('SET', 'k', 'v', 'PX', 60000); redis.call('DEL', 'k'); return redis.call('PTTL', 'k')",
        "redis.call('SET', 'k', 'v'); redis.call('PEXPIREAT', 'k', now - 1); return redis.call('EXISTS', 'k')",
        "redis.call('SET', 'k', 'v'); redis.call('PEXPIREAT', 'k', now); return redis.call('EXISTS', 'k')",
        "return redis.call('PEXPIREAT', 'k', now + 1)",
        "return redis.call('PTTL', 'k')",
    ],
)
def test_ttls_by_the_test_s_clock_are_those_of_redis(lab, script):
    assert lab.server.eval(SHIM + NOW + script, 0) == pytest.approx(lab.server.eval(NOW + script, 0), abs=1_000)


def test_a_key_expires_when_the_test_s_clock_gets_there(lab):
    lab.server.eval(SHIM + "redis.call('SET', 'k', 'v', 'PX', 60000)", 0)
    lab.server.eval(TICK, 0, EPOCH + 59_999)
    assert lab.server.exists("k")
    lab.server.eval(TICK, 0, EPOCH + 60_000)
    assert not lab.server.exists("k")


def test_a_command_that_the_shim_does_not_know_is_refused(lab):
    with pytest.raises(ResponseError, match="EXPIRE"):
        lab.server.eval(SHIM + "return redis.call('EXPIRE', 'k', 1)", 0)


@pytest.mark.parametrize(
    ("fate", "answered", "executed"),
    [("fine", True, 1), ("lost", False, 0), ("unanswered", False, 1), ("late", False, 0), ("twice", True, 1)],
)
def test_a_request_meets_its_fate(lab, fate, answered, executed):
    runs = []
    lab.wire.listener = lambda script, *_: runs.append(script)
    lab.wire.fate = fate
    try:
        lab.wire.execute_command(*cancel())
    except TimeoutError:
        assert not answered
    else:
        assert answered
    assert len(runs) == executed
    while lab.wire.late:
        lab.wire.deliver(0)
        assert len(runs) == executed + 1
    assert lab.wire.fate == "fine"


def test_half_a_pipeline_is_executed(lab):
    runs = []
    lab.wire.listener = lambda script, *_: runs.append(script)
    lab.wire.fate = "half"
    with lab.wire.pipeline() as pipeline:
        for _ in range(2):
            pipeline.execute_command(*cancel())
        with pytest.raises(TimeoutError):
            pipeline.execute()
    assert len(runs) == 1
