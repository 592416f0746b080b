-- complete: leased -> succeeded. The result stays for its TTL, the idempotency key for its own.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 5: id, queue, token, result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, ORPHANED
-- @include _settle
local reply = {}
for first = 1, #ARGV, 5 do
  local id = ARGV[first]
  local run, text, word = leave(id, ARGV[first + 1], ARGV[first + 2], 'succeeded')
  if run then
    local head = parse_lines(text)
    call('HSET', RUN .. id, 'state', 'succeeded', 'finished_at', now_text)
    forget_unknown(id, run)
    note_attempt(id, run, ARGV[first + 4])
    if head.key and pcall('GET', idem_key(head.key)) == id then
      call('PEXPIREAT', idem_key(head.key), exact(now + head.key_ttl))
    end
    expire(id, head, tonumber(ARGV[first + 3]))
    word = 'DONE'
  end
  reply[#reply + 1] = word
end
return reply
