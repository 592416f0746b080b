-- enqueue: store records, once each, and put them where they can be claimed.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 7: id, queue, priority (-100 to 100), delay_ms, at_ms (0: none), head lines, envelope
-- Returns groups of 4: word (STORED, EXISTS, TAKEN), id, state, enqueued_at
-- @include _idempotency
-- @include _heal
local reply = {}

local function answer(word, id, state, enqueued_at)
  for _, value in ipairs({word, id, state, enqueued_at}) do reply[#reply + 1] = value end
end

-- A larger priority would leave the integers that a score holds exactly.
for first = 1, #ARGV, 7 do
  if not is_id(ARGV[first]) then return redis.error_reply('ID must be 1 to 63 letters and digits') end
  local priority = string.match(ARGV[first + 2], '^%-?%d+$')
  if not priority or math.abs(tonumber(priority)) > 100 then
    return redis.error_reply('PRIORITY must be an integer from -100 to 100')
  end
end

for first = 1, #ARGV, 7 do
  local id, queue, priority, delay = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 3])
  local at, lines, envelope = tonumber(ARGV[first + 4]), ARGV[first + 5], ARGV[first + 6]
  local text, run = head_text(id), run_fields(id, 'state')
  local opening = now .. ' ' .. priority .. ' ' .. queue .. '\n' .. lines .. '\n'
  local head = parse_head(opening)
  if text and alias_of(text) then
    local owner = alias_of(text)
    local state = run_fields(owner, 'state')
    answer('TAKEN', owner, state and state[1] or 'waiting', parse_head(head_text(owner) or '').enqueued_at)
  elseif text or redis.call('EXISTS', task_key(id), run_key(id)) > 0 then
    local known = parse_head(text or opening)
    local state = run and run[1] or text and 'waiting' or 'cancelled'
    if text then heal(id, known.queue or queue, state, known.priority, math.max(at, known.enqueued_at + delay)) end
    answer('EXISTS', id, state, known.enqueued_at)
  else
    local owner, state, held
    if head.key then owner, state, held = holder(head.key, id) end
    if owner then
      redis.call('SET', task_key(id), 'alias ' .. owner, 'PX', head.record and DAY or MINUTE)
      withdraw(id, queue)
      answer('TAKEN', owner, state, held.enqueued_at)
    else
      redis.call('SET', task_key(id), opening .. envelope)
      if head.key then redis.call('SET', idem_key(head.key), id) end
      redis.call('SADD', KEYS[1], queue)
      withdraw(id, queue)
      place(id, queue, head.priority, math.max(at, now, now + delay))
      answer('STORED', id, 'waiting', now)
    end
  end
end
return reply
