-- The namespace, the server's clock, and how keys are read and written. KEYS[1] is always {ns}:queues.
local call, pcall = redis.call, redis.pcall
local ns = string.match(KEYS[1], '^{[^}]*}:')
-- What the keys of a record and of a queue begin with; then follows its id, or `<queue>:<part>`.
local TASK, RUN, LOG, QUEUE = ns .. 'task:', ns .. 'run:', ns .. 'log:', ns .. 'queue:'
local MINUTE, DAY = 60000, 86400000
-- About three centuries. With a time to live that Redis refuses, a script would stop between two writes.
local LONGEST_TTL = 1e13

-- A whole number as text. Redis writes out each number that it is given, which takes as long as a small command,
-- and the records of one call share theirs.
local texts = {}
local function exact(number)
  local text = texts[number]
  if not text then
    text = string.format('%.0f', number)
    texts[number] = text
  end
  return text
end

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now_text = exact(now)

local armed = {}
local function arm(queue)
  if armed[queue] then return end
  armed[queue] = true
  call('ZADD', QUEUE .. queue .. ':wake', '0', '1')
end

-- An id that `enqueue` would take; any other was put there by a stranger, and no client could hold it.
local function is_id(id) return #id <= 63 and string.find(id, '^[0-9A-Za-z]+$') ~= nil end

-- Fields of a run hash, each false where it is missing; nil when the key holds something else.
local function run_fields(id, ...)
  local run = pcall('HMGET', RUN .. id, ...)
  if type(run) == 'table' and not run.err then return run end
end
