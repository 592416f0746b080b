-- summary: a short view of many records; long texts are cut, so that the reply stays bounded.
-- KEYS[1] {ns}:queues
-- ARGV    bytes (most of each text), id...
-- Returns the server's clock in ms, then for each id a list: task string (cut; empty: none), its length, last log line
--         (cut; empty: none), its length, and from the run hash (empty: none) attempts, token, worker,
--         last_attempted_at, cancel_requested
-- @include _number
local limit = tonumber(ARGV[1])
local reply = {now}

local function text(found) return type(found) == 'string' and found or '' end

for i = 2, #ARGV do
  local id = ARGV[i]
  local task = text(pcall('GETRANGE', TASK .. id, 0, limit - 1))
  local last = text(pcall('LINDEX', LOG .. id, -1))
  local run = run_fields(id, 'attempts', 'token', 'worker', 'last_attempted_at', 'cancel_requested') or {}
  local record = {task, task == '' and 0 or call('STRLEN', TASK .. id), string.sub(last, 1, limit), #last}
  record[5], record[6], record[7] = digits(run[1], COUNT) or '', digits(run[2], MOMENT) or '', run[3] or ''
  record[8], record[9] = digits(run[4], MOMENT) or '', run[5] or ''
  reply[#reply + 1] = record
end
return reply
