-- The namespace, the server's clock, and how keys are read and written. KEYS[1] is always {ns}:queues.
local ns = string.match(KEYS[1], '^{[^}]*}:')
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local MINUTE, DAY = 60000, 86400000

local function task_key(id) return ns .. 'task:' .. id end
local function run_key(id) return ns .. 'run:' .. id end
local function log_key(id) return ns .. 'log:' .. id end
local function queue_key(queue, part) return ns .. 'queue:' .. queue .. ':' .. part end

-- At maxmemory a script goes on when its first executed write can't grow memory (invariant 8).
local function admit() redis.call('ZREM', ns .. 'workers', '') end

local function arm(queue) redis.call('ZADD', queue_key(queue, 'wake'), 0, '1') end

-- Fields of a run hash, each false where missing; nil when the key holds something else.
local function run_fields(id, ...)
  local run = redis.pcall('HMGET', run_key(id), ...)
  if type(run) == 'table' and not run.err then return run end
end
