-- summary: a short view of many records; long texts are cut, so that the reply stays bounded.
-- KEYS[1] {ns}:queues
-- ARGV    bytes (most of each text), id...
-- Returns the server's clock in ms, then for each id a list: task string (cut; empty: none), its length, last log line
--         (cut; empty: none), its length, and from the run hash (empty: none) attempts, token, worker,
--         last_attempted_at, cancel_requested
-- @include _base
local limit = tonumber(ARGV[1])
local reply = {now}

local function text(found) return type(found) == 'string' and found or '' end

for i = 2, #ARGV do
  local id = ARGV[i]
  local task = text(redis.pcall('GETRANGE', task_key(id), 0, limit - 1))
  local last = text(redis.pcall('LINDEX', log_key(id), -1))
  local run = run_fields(id, 'attempts', 'token', 'worker', 'last_attempted_at', 'cancel_requested') or {}
  local record = {task, task == '' and 0 or redis.call('STRLEN', task_key(id)), string.sub(last, 1, limit), #last}
  for field = 1, 5 do record[4 + field] = run[field] or '' end
  reply[#reply + 1] = record
end
return reply
