-- retry: leased -> scheduled after a delay that the client chose; a record asked to cancel is cancelled instead.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 7: id, queue, token, lapsed (1: only if the lease has lapsed), delay_ms, result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, HELD, ORPHANED
-- @include _settle
local reply = {}
for first = 1, #ARGV, 7 do
  local id, queue, token, delay = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 4])
  local run, word = held(id, queue, token, 'waiting', ARGV[first + 3])
  if run then
    redis.call('ZREM', queue_key(queue, 'leased'), id)
    forget_unknown(id, run)
    note_attempt(id, run, ARGV[first + 6])
    if run.cancel then
      cancelled(id, run.head, tonumber(ARGV[first + 5]))
      word = 'CANCELLED'
    else
      redis.call('HSET', run_key(id), 'state', 'waiting')
      place(id, queue, run.head.priority, now + math.max(0, delay))
      word = 'DONE'
    end
  end
  reply[#reply + 1] = word
end
return reply
