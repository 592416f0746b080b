-- cancel: waiting -> cancelled; a leased record is asked to stop, and then no retry, bury or release revives it.
-- KEYS[1] {ns}:queues
-- ARGV    result_ttl_ms, id...
-- Returns a word each: DONE, ASKED (it runs), ALREADY (cancelled before), ENDED (succeeded or dead), MISSING,
--         ORPHANED (it waited, without a body)
-- @include _admit
-- @include _ending
-- @include _orphan
-- @include _search
local reply = {}
admit()

-- Takes a waiting id out of its set; tells whether it was in one.
local function withdraw(id, head, take)
  local found = false
  for _, part in ipairs({'ready', 'scheduled'}) do
    local queue = queue_of(id, head, part)
    if queue and call('ZSCORE', QUEUE .. queue .. ':' .. part, id) then
      take(id, QUEUE .. queue .. ':' .. part)
      found = true
    end
  end
  return found
end

local function cancel(id)
  local text, run = head_text(id), run_fields(id, 'state')
  if not text or not run then return withdraw(id, {}, orphan) and 'ORPHANED' or 'MISSING' end
  if alias_of(text) then return 'MISSING' end
  local state, head = run[1] or 'waiting', parse_head(text)
  if state == 'cancelled' then return 'ALREADY' end
  if state == 'waiting' then
    withdraw(id, head, function(_, set) call('ZREM', set, id) end)
    cancelled(id, head, tonumber(ARGV[1]))
    return 'DONE'
  end
  if state ~= 'leased' then return 'ENDED' end
  call('HSET', RUN .. id, 'cancel_requested', now_text)
  return 'ASKED'
end

for i = 2, #ARGV do reply[#reply + 1] = cancel(ARGV[i]) end
return reply
