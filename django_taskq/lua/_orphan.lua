-- @include _base
-- Ids in a set whose records are gone.

-- Takes an id without a body, or that is none, out of its set; what is left of it goes after a minute.
local function orphan(id, set)
  call('ZREM', set, id)
  if run_fields(id, 'state') and call('EXISTS', RUN .. id) == 1 then
    call('HSET', RUN .. id, 'state', 'cancelled', 'finished_at', now_text)
  end
  for _, key in ipairs({TASK, RUN, LOG}) do call('PEXPIREAT', key .. id, exact(now + MINUTE)) end
end
