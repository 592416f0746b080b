-- @include _ending
-- @include _number
-- @include _orphan
-- What every settle does: check that the lease is still held under its token, end it, and note the attempt.
local LOG_LENGTH = 20
-- Where things stand in a run that `leave` returns.
local ATTEMPTS, BEGAN_AT, CHILD, UNKNOWN_SINCE, CANCEL, RELEASES, SCORE = 3, 4, 5, 6, 7, 8, 9

local function has_lapsed(score) return score <= now or score > now + DAY end

-- Takes a record that is leased under this token out of leased; returns its run and head text, or nil, nil and the
-- word that says why not. All is read before that ZREM. With `lapsed` the caller is a reaper, which may only touch a
-- lease that nobody renewed meanwhile. Further fields of the run come when they are named.
local function leave(id, queue, token, goal, lapsed, ...)
  local run = run_fields(id, 'state', 'token', 'attempts', 'last_attempted_at', 'worker', 'unknown_since', ...)
  if not run or run[2] ~= token then return nil, nil, 'LEASE_LOST' end
  if run[1] ~= 'leased' then
    return nil, nil, run[1] == goal and 'ALREADY' or run[1] == 'cancelled' and 'CANCELLED' or 'LEASE_LOST'
  end
  local leased, text = QUEUE .. queue .. ':leased', head_text(id)
  if lapsed == '1' then
    local score = call('ZSCORE', leased, id)
    if score and not has_lapsed(tonumber(score)) then return nil, nil, 'HELD' end
  end
  if call('ZREM', leased, id) == 0 then return nil, nil, 'LEASE_LOST' end
  if text then return run, text end
  orphan(id, leased)
  return nil, nil, 'ORPHANED'
end

local function note_attempt(id, run, json)
  local line = (digits(run[ATTEMPTS], COUNT) or 1) .. ' ' .. run[2] .. ' ' .. (digits(run[BEGAN_AT], MOMENT) or 0)
    .. ' ' .. now_text .. ' ' .. (run[CHILD] or '-') .. ' ' .. json
  local length = pcall('RPUSH', LOG .. id, line)
  if type(length) == 'number' and length > LOG_LENGTH then call('LTRIM', LOG .. id, -LOG_LENGTH, -1) end
end

local function forget_unknown(id, run)
  if run[UNKNOWN_SINCE] then call('HDEL', RUN .. id, 'releases', 'unknown_since') end
end
