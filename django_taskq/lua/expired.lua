-- expired: read a page of lapsed leases of many queues. The client decides what becomes of each.
-- KEYS[1] {ns}:queues
-- ARGV    limit, number of ids to pass over, these ids, queue...
-- Returns now, milliseconds until the next lapse (-1: nothing is leased), then groups of 8: the 7 of _reply.lua
--         and cancel_requested (1 or 0)
-- @include _admit
-- @include _orphan
-- @include _place
-- @include _reply
local reply, bytes, found, limit, more = {now, -1}, 0, 0, tonumber(ARGV[1]), false
local passed, passing = tonumber(ARGV[2]), {}
for i = 3, passed + 2 do passing[ARGV[i]] = true end
admit()

local function lapsed_in(leased)
  local most = limit - found + passed
  local ids = call('ZRANGEBYSCORE', leased, '-inf', now, 'LIMIT', 0, most)
  -- An end more than a day ahead comes from a clock that was set back since.
  local odd = call('ZRANGEBYSCORE', leased, '(' .. now + DAY, '+inf', 'LIMIT', 0, most)
  more = more or #ids >= most or #odd >= most
  for _, id in ipairs(odd) do ids[#ids + 1] = id end
  return ids
end

local function read(queue, id)
  local task = pcall('GET', TASK .. id)
  local run = run_fields(id, 'token', 'attempts', 'releases', 'unknown_since', 'cancel_requested')
  local leased = QUEUE .. queue .. ':leased'
  if type(task) ~= 'string' or task == '' or not run or not is_id(id) then return orphan(id, leased) end
  if not digits(run[1], MOMENT) then
    -- Its run hash is lost, or its token, and with it the lease; without one a record waits.
    call('ZREM', leased, id)
    return place(id, queue, parse_head(task).priority, now)
  end
  append(reply, id, queue, run[1], digits(run[2], COUNT) or 1, run[3], run[4], task)
  reply[#reply + 1] = run[5] and 1 or 0
  found, bytes = found + 1, bytes + #task
end

for i = passed + 3, #ARGV do
  local leased = QUEUE .. ARGV[i] .. ':leased'
  for _, id in ipairs(lapsed_in(leased)) do
    if found < limit and bytes < PAGE_BYTES and not passing[id] then read(ARGV[i], id) end
  end
  local nearest = call('ZRANGEBYSCORE', leased, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local gap = nearest[2] and tonumber(nearest[2]) - now
  if gap and (reply[2] == -1 or gap < reply[2]) then reply[2] = gap end
end
if more or bytes >= PAGE_BYTES then reply[2] = 0 end
return reply
