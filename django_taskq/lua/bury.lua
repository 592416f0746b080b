-- bury: leased -> dead, where it waits for a person and blocks no idempotency key; cancelled if it was asked to.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 6: id, queue, token, lapsed (1: only if the lease has lapsed), result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, HELD, ORPHANED
-- @include _settle
local reply = {}
for first = 1, #ARGV, 6 do
  local id, queue, token = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local run, text, word = leave(id, queue, token, 'dead', ARGV[first + 3], 'cancel_requested')
  if run then
    local head = parse_lines(text)
    forget_unknown(id, run)
    note_attempt(id, run, ARGV[first + 5])
    if run[CANCEL] then
      cancelled(id, head, tonumber(ARGV[first + 4]))
      word = 'CANCELLED'
    else
      call('HSET', RUN .. id, 'state', 'dead', 'finished_at', now_text)
      call('ZADD', QUEUE .. queue .. ':dead', now_text, id)
      free_key(head.key, id)
      word = 'DONE'
    end
  end
  reply[#reply + 1] = word
end
return reply
