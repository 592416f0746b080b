"""What Redis holds, read in one step beside each request."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

OBSERVE = """
local ttls, keys = {}, {}
local flat = redis.call('HGETALL', 'test:ttl')
for i = 1, #flat, 2 do ttls[flat[i]] = tonumber(flat[i + 1]) end
for i, key in ipairs(redis.call('KEYS', '{t}:*')) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else value = redis.call('SMEMBERS', key) end
  keys[i] = {key, kind, ttls[key] or false, value}
end
return cjson.encode({tonumber(redis.call('GET', 'test:clock')), keys})
"""

TICK = """
local now = tonumber(ARGV[1])
redis.call('SET', 'test:clock', ARGV[1])
local flat = redis.call('HGETALL', 'test:ttl')
for i = 1, #flat, 2 do
  if tonumber(flat[i + 1]) <= now then redis.call('DEL', flat[i]); redis.call('HDEL', 'test:ttl', flat[i]) end
end
"""

COPY = """
local copy = {}
for _, pattern in ipairs({'{t}:*', 'test:ttl'}) do
  for _, key in ipairs(redis.call('KEYS', pattern)) do
    copy[#copy + 1] = key
    copy[#copy + 1] = redis.call('DUMP', key)
  end
end
return copy
"""

RESTORE = """
for _, pattern in ipairs({'{t}:*', 'test:ttl'}) do
  for _, key in ipairs(redis.call('KEYS', pattern)) do redis.call('DEL', key) end
end
for i = 1, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end
"""


def pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@dataclass
class View:
    """All keys of the namespace `t` at one moment; a TTL is the moment of expiry, or None."""

    now: int
    ttls: dict[str, int | None] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    #: Ids whose task key is no string.
    spoilt: set[str] = field(default_factory=set)
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    journals: dict[str, dict[str, str]] = field(default_factory=dict)
    #: id -> (queue, set, score) for each set that it is in
    places: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    wake: set[str] = field(default_factory=set)

    def ttl(self, kind: str, name: str) -> int | None:
        return self.ttls[f"{{t}}:{kind}:{name}"]

    def place(self, record_id: str, part: str) -> int | None:
        """Return the score of a record in one kind of set."""
        return next((score for _, found, score in self.places.get(record_id, ()) if found == part), None)

    def _add(self, kind: str, name: str, value: list[str]) -> None:
        if kind == "run":
            self.runs[name] = pairs(value)
        elif kind == "log":
            self.logs[name] = value
        elif kind == "claim":
            self.journals[name] = pairs(value)
        elif kind == "queue":
            queue, part = name.split(":")
            if part == "wake":
                self.wake.add(queue)
            for record_id, score in pairs(value).items() if part != "wake" else ():
                self.places.setdefault(record_id, []).append((queue, part, int(float(score))))
        elif kind == "task":
            self.spoilt.add(name)

    @classmethod
    def parse(cls, text: bytes) -> View:
        now, keys = json.loads(text)
        view = cls(now)
        for key, redis_type, ttl, value in keys or ():
            view.ttls[key] = ttl or None
            _, kind, *rest = key.split(":", 2)
            if redis_type == "string":
                (view.tasks if kind == "task" else view.keys)[rest[0]] = value
            elif rest:
                view._add(kind, rest[0], value)
        return view
