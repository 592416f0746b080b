-- requeue: dead -> ready, or scheduled where the caller spreads them; attempts from zero, history kept.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 3: id, died_at (the score in dead that the caller saw), delay_ms
-- Returns a word each: DONE, CHANGED (not dead, or dead again since), TAKEN (another record holds its key), ORPHANED
-- @include _dead
-- @include _idempotency
-- @include _place
local reply = {}
for first = 1, #ARGV, 3 do
  local id, delay = ARGV[first], tonumber(ARGV[first + 2])
  local head, word = dead_record(id, ARGV[first + 1])
  if head and head.key and holder(head.key, id) then
    word = 'TAKEN'
  elseif head then
    local queue = word
    call('ZREM', QUEUE .. queue .. ':dead', id)
    call('HSET', RUN .. id, 'state', 'waiting', 'attempts', 0)
    call('HDEL', RUN .. id, 'finished_at', 'cancel_requested', 'releases', 'unknown_since', 'started_at')
    if head.key then call('SET', idem_key(head.key), id) end
    place(id, queue, head.priority, now + math.max(0, delay))
    word = 'DONE'
  end
  reply[#reply + 1] = word
end
return reply
