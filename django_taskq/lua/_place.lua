-- @include _head
-- Putting a waiting record where it belongs, or out of the way when its body is gone.

-- Due records go to ready in order of priority, then time; the others wait in scheduled. A watcher is
-- woken when there is something to claim, or something sooner than all it knows.
local function place(id, queue, priority, due)
  if due > now then
    local scheduled = QUEUE .. queue .. ':scheduled'
    call('ZADD', scheduled, exact(due), id)
    if not armed[queue] and call('ZRANGE', scheduled, '0', '0')[1] == id then arm(queue) end
  else
    call('ZADD', QUEUE .. queue .. ':ready', exact(due - priority * 1e13), id)
    arm(queue)
  end
end

-- Takes an id without a body, or that is none, out of its set; what is left of it goes after a minute.
local function orphan(id, set)
  call('ZREM', set, id)
  if run_fields(id, 'state') and call('EXISTS', RUN .. id) == 1 then
    call('HSET', RUN .. id, 'state', 'cancelled', 'finished_at', now_text)
  end
  for _, key in ipairs({TASK, RUN, LOG}) do call('PEXPIREAT', key .. id, exact(now + MINUTE)) end
end
