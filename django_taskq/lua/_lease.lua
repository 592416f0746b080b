-- @include _orphan
-- @include _reply
-- Leasing ready records.
local NEVER_CLAIMED = {}

-- Tells whether none of the ids at every other place has a run.
local function are_new(found)
  local keys = {}
  for i = 1, #found, 2 do keys[#keys + 1] = RUN .. found[i] end
  return call('EXISTS', unpack(keys)) == 0
end

-- Leases one id of ready under a new token, and returns that with the size of its task; nothing when its body was
-- gone. A token never goes back (invariant 3). Until `move` the id stays in ready.
local function lease(reply, queue, id, score, child, is_new)
  local task, run = pcall('GET', TASK .. id), NEVER_CLAIMED
  if not is_new then run = run_fields(id, 'attempts', 'token', 'releases', 'unknown_since', 'started_at') end
  if type(task) ~= 'string' or task == '' or not run or not is_id(id) then
    return orphan(id, QUEUE .. queue .. ':ready')
  end
  local attempts = (digits(run[1], COUNT) or 0) + 1
  local token = math.max((digits(run[2], MOMENT) or 0) + 1, now)
  call('HSET', RUN .. id, 'state', 'leased', 'attempts', exact(attempts), 'token', exact(token), 'worker', child,
    'score', score, 'started_at', digits(run[5], MOMENT) or now_text, 'last_attempted_at', now_text)
  append(reply, id, queue, token, attempts, run[3], run[4], task)
  return token, #task
end

-- Moves what was leased from ready to leased, a thousand ids at most.
local function move(queue, ids, ends_at)
  local ends = {}
  for i, id in ipairs(ids) do ends[2 * i - 1], ends[2 * i] = ends_at, id end
  call('ZADD', QUEUE .. queue .. ':leased', unpack(ends))
  call('ZREM', QUEUE .. queue .. ':ready', unpack(ids))
end

-- The same lease again, for a claim whose reply was lost; it begins anew, as its holder counts from this request.
local function lease_again(reply, queue, id, token, ends_at)
  local task, run = pcall('GET', TASK .. id), run_fields(id, 'state', 'token', 'attempts', 'releases', 'unknown_since')
  local leased = QUEUE .. queue .. ':leased'
  if type(task) ~= 'string' or not run or run[1] ~= 'leased' or run[2] ~= token then return end
  if not call('ZSCORE', leased, id) then return end
  call('ZADD', leased, ends_at, id)
  append(reply, id, queue, token, digits(run[3], COUNT) or 1, run[4], run[5], task)
end
