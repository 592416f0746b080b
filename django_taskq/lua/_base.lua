-- The namespace, the server's clock, and how keys are read and written. KEYS[1] is always {ns}:queues.
local ns = string.match(KEYS[1], '^{[^}]*}:')
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local MINUTE, DAY = 60000, 86400000
-- About three centuries. With a time to live that Redis refuses, a script would stop between two writes.
local LONGEST_TTL = 1e13

local function task_key(id) return ns .. 'task:' .. id end
local function run_key(id) return ns .. 'run:' .. id end
local function log_key(id) return ns .. 'log:' .. id end
local function queue_key(queue, part) return ns .. 'queue:' .. queue .. ':' .. part end

-- At maxmemory a script goes on when its first executed write can't grow memory (invariant 8).
local function admit() redis.call('ZREM', ns .. 'workers', '') end

local function arm(queue) redis.call('ZADD', queue_key(queue, 'wake'), 0, '1') end

-- An id that `enqueue` would take; any other was put there by a stranger, and no client could hold it.
local function is_id(id) return #id <= 63 and string.find(id, '^[0-9A-Za-z]+$') ~= nil end

-- Most digits of a number in a run hash: what every client can hold.
local DIGITS = {attempts = 9, releases = 9, token = 14, unknown_since = 14, started_at = 14, last_attempted_at = 14}

-- Fields of a run hash, each false where it is missing or a number that is none; nil when the key holds something else.
local function run_fields(id, ...)
  local run = redis.pcall('HMGET', run_key(id), ...)
  if type(run) ~= 'table' or run.err then return end
  for i, name in ipairs({...}) do
    local most = DIGITS[name]
    if most and run[i] and (#run[i] > most or not string.find(run[i], '^%d+$')) then run[i] = false end
  end
  return run
end
