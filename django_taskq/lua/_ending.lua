-- @include _idempotency
-- How a record ends and when its keys go.

local function free_key(key, id)
  if key and pcall('GET', idem_key(key)) == id then call('DEL', idem_key(key)) end
end

-- A succeeded or cancelled record keeps its task and run, so that a repeated enqueue finds it (invariant 9).
local function expire(id, head, result_ttl)
  result_ttl = math.min(result_ttl, LONGEST_TTL)
  local keep = math.max(result_ttl, head.key_ttl, MINUTE, head.record and DAY or 0)
  call('PEXPIREAT', TASK .. id, exact(now + keep))
  call('PEXPIREAT', RUN .. id, exact(now + keep))
  call('PEXPIREAT', LOG .. id, exact(now + math.max(result_ttl, MINUTE)))
end

-- The caller has taken the id out of its set.
local function cancelled(id, head, result_ttl)
  call('HSET', RUN .. id, 'state', 'cancelled', 'finished_at', now_text)
  free_key(head.key, id)
  expire(id, head, result_ttl)
end
