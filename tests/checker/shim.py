"""Let the scripts live in a test's time: a clock that only the test moves, and keys that expire by it.

The composed scripts keep their text; above it stands a `redis` of their own, in which TIME and everything about a
TTL goes to two keys of the test. So an hour passes in one command, and the clock can be set back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from django_taskq.broker import broker, scripts

#: Milliseconds on the server's clock when a test begins: as long as today's, so that scores are as large.
EPOCH = 1_800_000_000_000
#: Lines that a log keeps here, so that one can be too long within a short run.
LOG_LENGTH = 4

SHIM = """
local server, at = redis, tonumber(redis.call('GET', 'test:clock'))
local plain = {}
for name in string.gmatch('EXISTS GET GETRANGE HDEL HGETALL HINCRBY HMGET HSET HSETNX LLEN LRANGE LTRIM RPUSH SADD '
  .. 'SMEMBERS ZADD ZCARD ZPOPMIN ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZSCORE', '%S+') do plain[name] = true end
local function exact(number) return string.format('%.0f', number) end
local function expire(key, moment)
  if server.call('EXISTS', key) == 0 then return 0 end
  if tonumber(moment) <= at then server.call('DEL', key); server.call('HDEL', 'test:ttl', key)
  else server.call('HSET', 'test:ttl', key, exact(moment)) end
  return 1
end
local timed = {
  TIME = function() return {exact(math.floor(at / 1000)), exact(at % 1000 * 1000)} end,
  PEXPIREAT = expire,
  PEXPIRE = function(key, ms) return expire(key, at + ms) end,
  PTTL = function(key)
    if server.call('EXISTS', key) == 0 then return -2 end
    local moment = server.call('HGET', 'test:ttl', key)
    return moment and tonumber(moment) - at or -1
  end,
  DEL = function(key) server.call('HDEL', 'test:ttl', key); return server.call('DEL', key) end,
  SET = function(key, value, option, ms)
    assert(option == nil or option == 'PX')
    server.call('SET', key, value); server.call('HDEL', 'test:ttl', key)
    if ms then expire(key, at + ms) end
    return {ok = 'OK'}
  end,
}
local redis = {}
function redis.call(command, ...)
  if timed[command] then return timed[command](...) end
  assert(plain[command], command)
  return server.call(command, ...)
end
function redis.pcall(command, ...)
  if timed[command] then return timed[command](...) end
  assert(plain[command], command)
  return server.pcall(command, ...)
end
"""

Replacements = Mapping[str, Sequence[tuple[str, str]]]


class Clock:
    """Stands in for the module `time` in the broker: the monotonic clock of all clients, in ms here."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic(self) -> float:
        return self.now / 1000


def compose(folder: Path, replacements: Replacements) -> None:
    """Write the scripts for a test: with the shim, and with each replacement, which must be found once."""
    shutil.copytree(scripts.FOLDER, folder)
    always = {
        "_base": [("-- The namespace", SHIM + "-- The namespace")],
        "_settle": [("LOG_LENGTH = 20", f"LOG_LENGTH = {LOG_LENGTH}")],
    }
    for changes in (always, replacements):
        for name, pairs in changes.items():
            path = folder / f"{name}.lua"
            text = path.read_text()
            for old, new in pairs:
                assert text.count(old) == 1, f"{name}.lua has {text.count(old)} times: {old}"
                text = text.replace(old, new)
            path.write_text(text)


@contextmanager
def in_test_time(folder: Path, replacements: Replacements) -> Iterator[Clock]:
    """Make every broker of this process run the test's scripts by the test's clock."""
    compose(folder, replacements)
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "FOLDER", folder)
        patch.setattr(broker, "time", clock)
        scripts.load.cache_clear()
        try:
            yield clock
        finally:
            scripts.load.cache_clear()
