-- enqueue: store records, once each, and put them where they can be claimed.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 7: id, queue, priority (-100 to 100), delay_ms, at_ms (0: none), head lines, envelope
-- Returns groups of 4: word (STORED, EXISTS, TAKEN), id, state, enqueued_at
-- @include _idempotency
-- @include _heal
local reply, named = {}, {}

local function answer(word, id, state, enqueued_at)
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = word, id, state, enqueued_at
end

-- A larger priority would leave the integers that a score holds exactly.
for first = 1, #ARGV, 7 do
  if not is_id(ARGV[first]) then return redis.error_reply('ID must be 1 to 63 letters and digits') end
  local priority = ARGV[first + 2]
  if not string.find(priority, '^%-?%d+$') or math.abs(tonumber(priority)) > 100 then
    return redis.error_reply('PRIORITY must be an integer from -100 to 100')
  end
end

-- An id that lost its body may still be in a set: an alias must never be claimed, and a record is in one place. It is
-- taken out after the first SET, which is refused when memory is full.
for first = 1, #ARGV, 7 do
  local id, queue, priority, delay = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 3])
  local at, task_key, owner, state, held = tonumber(ARGV[first + 4]), TASK .. id
  if call('EXISTS', task_key, RUN .. id) > 0 then
    answer(known(id, queue, at, delay))
  else
    local task = now_text .. ' ' .. priority .. ' ' .. queue .. '\n' .. ARGV[first + 5] .. '\n' .. ARGV[first + 6]
    local head, due = parse_lines(task), math.max(at, now, now + delay)
    if head.key then owner, state, held = holder(head.key, id) end
    if owner then
      call('SET', task_key, 'alias ' .. owner, 'PX', head.record and DAY or MINUTE)
      call('ZREM', QUEUE .. queue .. ':ready', id)
      call('ZREM', QUEUE .. queue .. ':scheduled', id)
      answer('TAKEN', owner, state, held.enqueued_at)
    else
      call('SET', task_key, task)
      if head.key then call('SET', idem_key(head.key), id) end
      named[queue] = named[queue] or call('SADD', KEYS[1], queue)
      call('ZREM', QUEUE .. queue .. (due > now and ':ready' or ':scheduled'), id)
      place(id, queue, tonumber(priority), due)
      answer('STORED', id, 'waiting', now)
    end
  end
end
return reply
