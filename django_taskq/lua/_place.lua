-- @include _head
-- Putting a waiting record where it belongs.

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
