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
