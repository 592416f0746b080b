-- retry: leased -> scheduled after a delay that the client chose; a record asked to cancel is cancelled instead.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 7: id, queue, token, lapsed (1: only if the lease has lapsed), delay_ms, result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, HELD, ORPHANED
-- @include _place
-- @include _settle
local reply = {}
for first = 1, #ARGV, 7 do
  local id, queue, token, delay = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 4])
  local run, text, word = leave(id, queue, token, 'waiting', ARGV[first + 3], 'cancel_requested')
  if run then
    forget_unknown(id, run)
    note_attempt(id, run, ARGV[first + 6])
    if run[CANCEL] then
      cancelled(id, parse_lines(text), tonumber(ARGV[first + 5]))
      word = 'CANCELLED'
    else
      call('HSET', RUN .. id, 'state', 'waiting')
      place(id, queue, parse_head(text).priority, now + math.max(0, delay))
      word = 'DONE'
    end
  end
  reply[#reply + 1] = word
end
return reply
