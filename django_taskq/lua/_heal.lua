-- @include _place
-- Records that Redis holds but has lost the place of (an older copy, a hand that deleted a set).

-- Puts a record back into the set that its state names, when it is in none (invariant 9).
local function heal(id, queue, state, priority, due)
  local function missing(set) return not redis.call('ZSCORE', queue_key(queue, set), id) end
  if state == 'waiting' then
    if redis.call('PTTL', task_key(id)) == -1 and missing('ready') and missing('scheduled') then
      place(id, queue, priority, due)
    end
  elseif (state == 'leased' or state == 'dead') and missing(state) then
    redis.call('ZADD', queue_key(queue, state), now, id)
  end
end

-- An id that lost its body may still be in a set: an alias must never be claimed, and a record is in one place. This
-- comes after the first SET, which is refused when memory is full.
local function withdraw(id, queue)
  for _, part in ipairs({'ready', 'scheduled'}) do redis.call('ZREM', queue_key(queue, part), id) end
end
