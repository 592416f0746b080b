-- claim: lease up to `count` ready records, from the queues in their order.
-- KEYS[1] {ns}:queues
-- ARGV    child, nonce, count, lease_ms, queue...
-- Returns 'STALE' alone when a later claim of this child was seen; else now, milliseconds until the next due
--         record (-1: none), then a group of 7 for each lease, as _reply.lua lays it out
-- @include _admit
-- @include _lease
-- @include _promote
-- @include _watch
local child, nonce, count, ends_at = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), exact(now + ARGV[4])
local PAGE, ORPHANS = 1000, 500 -- ids leased at once, and taken out by one call, at most
local journal = ns .. 'claim:' .. child
local last = call('HMGET', journal, 'nonce', 'ids')
if nonce < tonumber(last[1] or 0) then return {'STALE'} end
admit()
local reply, taken, bytes, orphans = {now, -1}, {}, 0, 0

local function has_room() return #taken < count and bytes < PAGE_BYTES and orphans < ORPHANS end

-- Leases the first of a queue; false when there are none.
local function claim_page(queue)
  local most = math.min(count - #taken, PAGE)
  local found, ids = call('ZRANGE', QUEUE .. queue .. ':ready', 0, most - 1, 'WITHSCORES'), {}
  if #found == 0 then return false end
  local is_new = are_new(found)
  for i = 1, #found, 2 do
    if not has_room() then break end
    local id = found[i]
    local token, size = lease(reply, queue, id, found[i + 1], child, is_new)
    if token then
      ids[#ids + 1] = id
      taken[#taken + 1] = id .. ' ' .. exact(token) .. ' ' .. queue
      bytes = bytes + size
    else
      orphans = orphans + 1
    end
  end
  if #ids > 0 then move(queue, ids, ends_at) end
  return true
end

if last[1] and nonce == tonumber(last[1]) then
  for id, token, queue in string.gmatch(last[2], '(%S+) (%S+) ([^\n]+)') do
    lease_again(reply, queue, id, token, ends_at)
  end
else
  for i = 5, #ARGV do
    if has_room() then promote_due(ARGV[i]) end
    while has_room() and claim_page(ARGV[i]) do end
  end
  call('HSET', journal, 'nonce', ARGV[2], 'ids', table.concat(taken, '\n'))
  call('PEXPIRE', journal, DAY)
end

reply[2] = watch(5, (#reply - 2) / 7 >= count)
return reply
