-- states: what has become of records, a word for each, for those who hold their rows.
-- KEYS[1] {ns}:queues
-- ARGV    id...
-- Returns for each id its state, or GONE, LOST (it is in no sorted set), TAKEN (it is an alias), or BODILESS (what is
--         left of it goes within a minute)
-- @include _head
local reply = {}

-- A set of a wrong type may hold any id.
local function is_placed(id, queue, state)
  if state == 'waiting' then
    return pcall('ZSCORE', QUEUE .. queue .. ':ready', id) or pcall('ZSCORE', QUEUE .. queue .. ':scheduled', id)
  end
  return state ~= 'leased' and state ~= 'dead' or pcall('ZSCORE', QUEUE .. queue .. ':' .. state, id)
end

-- Nobody meets it again where it is in no set either, and nothing is pushed in its place before it is gone.
local function let_go(id)
  for _, key in ipairs({TASK, RUN, LOG}) do
    if call('PTTL', key .. id) == -1 then call('PEXPIRE', key .. id, MINUTE) end
  end
end

for i, id in ipairs(ARGV) do
  local text = head_text(id)
  if not text then
    reply[i] = call('EXISTS', TASK .. id, RUN .. id) > 0 and 'BODILESS' or 'GONE'
    let_go(id)
  elseif alias_of(text) then
    reply[i] = 'TAKEN'
  else
    local run, queue = run_fields(id, 'state'), parse_head(text).queue
    local state = run and run[1] or 'waiting'
    reply[i] = (not queue or is_placed(id, queue, state)) and state or 'LOST'
  end
end
return reply
