-- @include _place
-- Leasing a ready record, and a leased record as a reply: id, queue, token, attempts, releases, milliseconds
-- since a worker first didn't know its name (-1: all did), and the task string.
local PAGE_BYTES = 1048576

local function append(reply, ...)
  for _, value in ipairs({...}) do reply[#reply + 1] = value end
end

local function unknown_ms(since) return since and math.max(0, now - tonumber(since)) or -1 end

-- Leases one ready id under a new token; false when its body was gone. A token never goes back (invariant 3).
local function lease(reply, queue, id, score, child, lease_ms)
  local ready, task = queue_key(queue, 'ready'), redis.pcall('GET', task_key(id))
  local run = run_fields(id, 'attempts', 'token', 'releases', 'unknown_since', 'started_at')
  if type(task) ~= 'string' or task == '' or not run or not is_id(id) then
    orphan(id, ready)
    return false
  end
  local attempts, token = tonumber(run[1] or 0) + 1, math.max(tonumber(run[2] or 0) + 1, now)
  redis.call('ZREM', ready, id)
  redis.call('ZADD', queue_key(queue, 'leased'), now + lease_ms, id)
  redis.call('HSET', run_key(id), 'state', 'leased', 'attempts', attempts, 'token', token, 'worker', child,
    'score', score, 'started_at', run[5] or now, 'last_attempted_at', now)
  append(reply, id, queue, token, attempts, run[3] or 0, unknown_ms(run[4]), task)
  return token, #task
end

-- The same lease again, for a claim whose reply was lost; it begins anew, as its holder counts from this request.
local function lease_again(reply, queue, id, token, lease_ms)
  local task, run = redis.pcall('GET', task_key(id)), run_fields(id, 'state', 'token', 'attempts', 'releases',
    'unknown_since')
  local leased = queue_key(queue, 'leased')
  if type(task) ~= 'string' or not run or run[1] ~= 'leased' or run[2] ~= token then return end
  if not redis.call('ZSCORE', leased, id) then return end
  redis.call('ZADD', leased, now + lease_ms, id)
  append(reply, id, queue, token, run[3] or 1, run[4] or 0, unknown_ms(run[5]), task)
end
