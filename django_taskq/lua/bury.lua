-- bury: leased -> dead, where it waits for a person and blocks no idempotency key; cancelled if it was asked to.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 6: id, queue, token, lapsed (1: only if the lease has lapsed), result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, HELD, ORPHANED
-- @include _settle
local reply = {}
for first = 1, #ARGV, 6 do
  local id, queue, token = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local run, word = held(id, queue, token, 'dead', ARGV[first + 3])
  if run then
    redis.call('ZREM', queue_key(queue, 'leased'), id)
    forget_unknown(id, run)
    note_attempt(id, run, ARGV[first + 5])
    if run.cancel then
      cancelled(id, run.head, tonumber(ARGV[first + 4]))
      word = 'CANCELLED'
    else
      redis.call('HSET', run_key(id), 'state', 'dead', 'finished_at', now)
      redis.call('ZADD', queue_key(queue, 'dead'), now, id)
      free_key(run.head.key, id)
      word = 'DONE'
    end
  end
  reply[#reply + 1] = word
end
return reply
