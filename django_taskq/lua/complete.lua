-- complete: leased -> succeeded. The result stays for its TTL, the idempotency key for its own.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 5: id, queue, token, result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, ORPHANED
-- @include _settle
local reply = {}
for first = 1, #ARGV, 5 do
  local id, queue, token, result_ttl = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 3])
  local run, word = held(id, queue, token, 'succeeded')
  if run then
    local head = run.head
    redis.call('ZREM', queue_key(queue, 'leased'), id)
    redis.call('HSET', run_key(id), 'state', 'succeeded', 'finished_at', now)
    forget_unknown(id, run)
    note_attempt(id, run, ARGV[first + 4])
    if head.key and redis.pcall('GET', idem_key(head.key)) == id then
      redis.call('PEXPIREAT', idem_key(head.key), now + head.key_ttl)
    end
    expire(id, head, result_ttl)
    word = 'DONE'
  end
  reply[#reply + 1] = word
end
return reply
