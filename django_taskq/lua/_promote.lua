-- @include _orphan
-- @include _place
-- Moves what is due in a queue to ready, in bounded steps; a delayed record is available from its due time.
local PROMOTIONS = 500

local function promote_due(queue)
  local scheduled = QUEUE .. queue .. ':scheduled'
  local due = call('ZRANGEBYSCORE', scheduled, '-inf', now_text, 'WITHSCORES', 'LIMIT', 0, PROMOTIONS)
  for i = 1, #due, 2 do
    local id, text = due[i], head_text(due[i])
    if text then
      call('ZREM', scheduled, id)
      call('ZADD', QUEUE .. queue .. ':ready', exact(due[i + 1] - parse_head(text).priority * 1e13), id)
    else
      orphan(id, scheduled)
    end
  end
end
