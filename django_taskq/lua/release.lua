-- release: leased -> ready at its old place, or scheduled after delay_ms. The attempt is given back.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 8: id, queue, token, delay_ms, floor (0: none; the token is raised to it), words (`keep`: the
--         attempt counts and is noted; `unknown`: nobody here knew its name), result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, ORPHANED
-- @include _settle
local reply = {}

local function give_back(id, run, words, floor)
  local run_hash, keep = run_key(id), string.find(words, 'keep', 1, true)
  local attempts = keep and run.attempts or math.max(0, run.attempts - 1)
  redis.call('HSET', run_hash, 'state', 'waiting', 'attempts', attempts,
    'token', math.max(tonumber(run.token), floor))
  if string.find(words, 'unknown', 1, true) then
    redis.call('HSET', run_hash, 'unknown_since', run.unknown_since or now, 'releases', run.releases + 1)
  end
end

for first = 1, #ARGV, 8 do
  local id, queue, token, delay = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 3])
  local floor, words = tonumber(ARGV[first + 4]), ARGV[first + 5]
  local run, word = held(id, queue, token, 'waiting')
  if run then
    redis.call('ZREM', queue_key(queue, 'leased'), id)
    if string.find(words, 'keep', 1, true) then note_attempt(id, run, ARGV[first + 7]) end
    give_back(id, run, words, floor)
    word = 'DONE'
    if run.cancel then
      cancelled(id, run.head, tonumber(ARGV[first + 6]))
      word = 'CANCELLED'
    elseif delay > 0 or not run.score then
      place(id, queue, run.head.priority, now + math.max(0, delay))
    else
      redis.call('ZADD', queue_key(queue, 'ready'), run.score, id)
      arm(queue)
    end
  end
  reply[#reply + 1] = word
end
return reply
