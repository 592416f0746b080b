-- repaired: which server this is, and at which the rows of each database were last all asked about; may note one.
-- KEYS[1] {ns}:queues
-- ARGV    nothing, or a database alias, the mark that it was seen to have (empty: none), and its new one
-- Returns the server's clock in ms, its id, which it draws when it starts (`?` where INFO is refused), then each alias
--         with its mark
-- @include _admit
local key = ns .. 'repaired'
local info = pcall('INFO', 'server')
local id = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
if #ARGV > 0 and (call('HMGET', key, ARGV[1])[1] or '') == ARGV[2] then
  admit()
  call('HSET', key, ARGV[1], ARGV[3])
end
local reply = call('HGETALL', key)
table.insert(reply, 1, id)
table.insert(reply, 1, now_text)
return reply
