-- @include _base
-- What a claim leaves to others.

-- Milliseconds until the next due record of the queues from ARGV[first] on; -1 when there is none. Work that is left
-- wakes another; who took all it could no longer watches the due times, so another must.
local function watch(first, took_all)
  local nearest = -1
  for i = first, #ARGV do
    local due = call('ZRANGE', QUEUE .. ARGV[i] .. ':scheduled', '0', '0', 'WITHSCORES')
    local gap = due[2] and math.max(0, tonumber(due[2]) - now)
    if gap and (nearest == -1 or gap < nearest) then nearest = gap end
    if gap == 0 or (gap and took_all) or call('ZCARD', QUEUE .. ARGV[i] .. ':ready') > 0 then arm(ARGV[i]) end
  end
  return nearest
end
