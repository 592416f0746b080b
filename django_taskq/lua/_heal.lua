-- @include _place
-- Ids that were enqueued before, and records that Redis holds but has lost the place of (an older copy, a hand that
-- deleted a set).

-- Puts a record back into the set that its state names, when it is in none (invariant 9).
local function heal(id, queue, state, priority, due)
  local function missing(set) return not call('ZSCORE', QUEUE .. queue .. ':' .. set, id) end
  if state == 'waiting' then
    if call('PTTL', TASK .. id) == -1 and missing('ready') and missing('scheduled') then
      place(id, queue, priority, due)
    end
  elseif (state == 'leased' or state == 'dead') and missing(state) then
    call('ZADD', QUEUE .. queue .. ':' .. state, now_text, id)
  end
end

-- The answer for an id whose task or run exists: word, id, state, enqueued_at.
local function known(id, queue, at, delay)
  local text, run = head_text(id), run_fields(id, 'state')
  local owner = text and alias_of(text)
  if owner then
    run = run_fields(owner, 'state')
    return 'TAKEN', owner, run and run[1] or 'waiting', parse_head(head_text(owner) or '').enqueued_at
  end
  local head, state = parse_head(text or ''), run and run[1] or text and 'waiting' or 'cancelled'
  if text then heal(id, head.queue or queue, state, head.priority, math.max(at, head.enqueued_at + delay)) end
  return 'EXISTS', id, state, head.enqueued_at
end
