-- renew: push leases further, as long as they are held under their token; a lapsed one that nobody took too.
-- KEYS[1] {ns}:queues
-- ARGV    lease_ms, then groups of 3: id, queue, token
-- Returns a word each: OK, CANCEL (held, and asked to stop), LOST
-- @include _admit
local reply, ends_at = {}, exact(now + tonumber(ARGV[1]))
admit()
for first = 2, #ARGV, 3 do
  local id, leased, token = ARGV[first], QUEUE .. ARGV[first + 1] .. ':leased', ARGV[first + 2]
  local run = run_fields(id, 'state', 'token', 'cancel_requested')
  if run and run[1] == 'leased' and run[2] == token and call('ZSCORE', leased, id) then
    call('ZADD', leased, ends_at, id)
    reply[#reply + 1] = run[3] and 'CANCEL' or 'OK'
  else
    reply[#reply + 1] = 'LOST'
  end
end
return reply
