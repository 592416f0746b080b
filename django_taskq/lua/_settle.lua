-- @include _ending
-- @include _place
-- What every settle does: check that the lease is still held under its token, and note the attempt.

local LOG_LENGTH = 20

local function has_lapsed(score) return score <= now or score > now + DAY end

-- The run and head of a record leased under this token, or nil and the word that says why not.
-- With `lapsed` the caller is a reaper, which may only touch a lease that nobody renewed meanwhile.
local function held(id, queue, token, goal, lapsed)
  local run = run_fields(id, 'state', 'token', 'attempts', 'last_attempted_at', 'worker', 'cancel_requested',
    'score', 'releases', 'unknown_since')
  if not run or run[2] ~= token then return nil, 'LEASE_LOST' end
  if run[1] == goal then return nil, 'ALREADY' end
  if run[1] == 'cancelled' then return nil, 'CANCELLED' end
  local leased = queue_key(queue, 'leased')
  local score = tonumber(redis.call('ZSCORE', leased, id) or nil)
  if run[1] ~= 'leased' or not score then return nil, 'LEASE_LOST' end
  if lapsed == '1' and not has_lapsed(score) then return nil, 'HELD' end
  local text = head_text(id)
  if not text then
    orphan(id, leased)
    return nil, 'ORPHANED'
  end
  return {
    token = token, attempts = tonumber(run[3] or 1), started_at = run[4] or '0', child = run[5] or '-',
    cancel = run[6], score = string.find(run[7] or '', '^%-?%d[%d.e+]*$') and tonumber(run[7]),
    releases = tonumber(run[8] or 0), unknown_since = run[9], head = parse_head(text),
  }
end

local function note_attempt(id, run, json)
  local line = table.concat({run.attempts, run.token, run.started_at, now, run.child, json}, ' ')
  local length = redis.pcall('RPUSH', log_key(id), line)
  if type(length) == 'number' and length > LOG_LENGTH then redis.call('LTRIM', log_key(id), -LOG_LENGTH, -1) end
end

local function forget_unknown(id, run)
  if run.releases > 0 or run.unknown_since then redis.call('HDEL', run_key(id), 'releases', 'unknown_since') end
end
