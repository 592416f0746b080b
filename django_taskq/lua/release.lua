-- release: leased -> ready at its old place, or scheduled after delay_ms. The attempt is given back.
-- KEYS[1] {ns}:queues
-- ARGV    groups of 8: id, queue, token, delay_ms, floor (0: none; the token is raised to it), words (`keep`: the
--         attempt counts and is noted; `unknown`: nobody here knew its name), result_ttl_ms, log JSON
-- Returns a word each: DONE, ALREADY, CANCELLED, LEASE_LOST, ORPHANED
-- @include _place
-- @include _settle
local reply = {}

local function give_back(id, run, words, floor)
  local attempts = digits(run[ATTEMPTS], COUNT) or 1
  if not string.find(words, 'keep', 1, true) then attempts = math.max(0, attempts - 1) end
  call('HSET', RUN .. id, 'state', 'waiting', 'attempts', attempts, 'token', exact(math.max(tonumber(run[2]), floor)))
  if string.find(words, 'unknown', 1, true) then
    local since, releases = digits(run[UNKNOWN_SINCE], MOMENT), digits(run[RELEASES], COUNT) or 0
    call('HSET', RUN .. id, 'unknown_since', since or now_text, 'releases', releases + 1)
  end
end

for first = 1, #ARGV, 8 do
  local id, queue, token, delay = ARGV[first], ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 3])
  local floor, words = tonumber(ARGV[first + 4]), ARGV[first + 5]
  local run, text, word = leave(id, queue, token, 'waiting', '0', 'cancel_requested', 'releases', 'score')
  if run then
    if string.find(words, 'keep', 1, true) then note_attempt(id, run, ARGV[first + 7]) end
    give_back(id, run, words, floor)
    word = 'DONE'
    if run[CANCEL] then
      cancelled(id, parse_lines(text), tonumber(ARGV[first + 6]))
      word = 'CANCELLED'
    elseif delay > 0 or not string.find(run[SCORE] or '', '^%-?%d[%d.e+]*$') then
      place(id, queue, parse_head(text).priority, now + math.max(0, delay))
    else
      call('ZADD', QUEUE .. queue .. ':ready', run[SCORE], id)
      arm(queue)
    end
  end
  reply[#reply + 1] = word
end
return reply
