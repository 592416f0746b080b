-- claim: lease up to `count` ready records, from the queues in their order.
-- KEYS[1] {ns}:queues
-- ARGV    child, nonce, count, lease_ms, queue...
-- Returns 'STALE' alone when a later claim of this child was seen; else now, milliseconds until the next due
--         record (-1: none), then a group of 7 for each lease, as _lease.lua lays it out
-- @include _lease
-- @include _promote
local child, nonce, count, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local ORPHANS = 500 -- taken out in one call at most
local journal = ns .. 'claim:' .. child
local last = redis.call('HMGET', journal, 'nonce', 'ids')
if nonce < tonumber(last[1] or 0) then return {'STALE'} end
admit()
local reply, taken, bytes, orphans = {now, -1}, {}, 0, 0

local function has_room() return #taken < count and bytes < PAGE_BYTES and orphans < ORPHANS end

local function claim_from(queue)
  promote_due(queue)
  local ready = queue_key(queue, 'ready')
  while has_room() do
    local found = redis.call('ZRANGE', ready, 0, count - #taken - 1, 'WITHSCORES')
    if #found == 0 then return end
    for i = 1, #found, 2 do
      if not has_room() then return end
      local token, size = lease(reply, queue, found[i], found[i + 1], child, lease_ms)
      if token then
        taken[#taken + 1] = found[i] .. ' ' .. token .. ' ' .. queue
        bytes = bytes + size
      else
        orphans = orphans + 1
      end
    end
  end
end

if last[1] and nonce == tonumber(last[1]) then
  for id, token, queue in string.gmatch(last[2], '(%S+) (%S+) ([^\n]+)') do
    lease_again(reply, queue, id, token, lease_ms)
  end
else
  for i = 5, #ARGV do
    if has_room() then claim_from(ARGV[i]) end
  end
  redis.call('HSET', journal, 'nonce', nonce, 'ids', table.concat(taken, '\n'))
  redis.call('PEXPIRE', journal, DAY)
end

-- Work that is left wakes another; who took all it could no longer watches the due times, so another must.
local full = (#reply - 2) / 7 >= count
for i = 5, #ARGV do
  local first = redis.call('ZRANGE', queue_key(ARGV[i], 'scheduled'), 0, 0, 'WITHSCORES')
  local gap = first[2] and math.max(0, tonumber(first[2]) - now)
  if gap and (reply[2] == -1 or gap < reply[2]) then reply[2] = gap end
  if gap == 0 or (gap and full) or redis.call('ZCARD', queue_key(ARGV[i], 'ready')) > 0 then arm(ARGV[i]) end
end
return reply
