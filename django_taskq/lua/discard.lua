-- discard: dead -> cancelled; its keys go after the result TTL.
-- KEYS[1] {ns}:queues
-- ARGV    result_ttl_ms, then groups of 2: id, died_at (the score in dead that the caller saw)
-- Returns a word each: DONE, CHANGED (not dead, or dead again since), ORPHANED
-- @include _ending
-- @include _dead
local reply = {}
for first = 2, #ARGV, 2 do
  local id = ARGV[first]
  local head, word = dead_record(id, ARGV[first + 1])
  if head then
    call('ZREM', QUEUE .. word .. ':dead', id)
    cancelled(id, head, tonumber(ARGV[1]))
    word = 'DONE'
  end
  reply[#reply + 1] = word
end
return reply
