-- @include _head
-- Putting a waiting record where it belongs, or out of the way when its body is gone.

-- Due records go to ready in order of priority, then time; the others wait in scheduled. A watcher is
-- woken when there is something to claim, or something sooner than all it knows.
local function place(id, queue, priority, due)
  if due > now then
    local scheduled = queue_key(queue, 'scheduled')
    redis.call('ZADD', scheduled, due, id)
    if redis.call('ZRANGE', scheduled, 0, 0)[1] == id then arm(queue) end
  else
    redis.call('ZADD', queue_key(queue, 'ready'), due - priority * 1e13, id)
    arm(queue)
  end
end

-- Takes an id without a body, or that is none, out of its set; what is left of it goes after a minute.
local function orphan(id, set)
  redis.call('ZREM', set, id)
  if run_fields(id, 'state') and redis.call('EXISTS', run_key(id)) == 1 then
    redis.call('HSET', run_key(id), 'state', 'cancelled', 'finished_at', now)
  end
  for _, key in ipairs({task_key(id), run_key(id), log_key(id)}) do
    redis.call('PEXPIREAT', key, now + MINUTE)
  end
end
