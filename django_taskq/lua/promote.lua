-- promote: one scheduled record is ready now.
-- KEYS[1] {ns}:queues
-- ARGV    id
-- Returns DONE, or MISSING when it isn't scheduled
-- @include _place
local id = ARGV[1]
local text = head_text(id)
local head = text and parse_head(text)
if not head or not head.queue then return 'MISSING' end
local scheduled = queue_key(head.queue, 'scheduled')
if not redis.call('ZSCORE', scheduled, id) then return 'MISSING' end
redis.call('ZREM', scheduled, id)
place(id, head.queue, head.priority, now)
return 'DONE'
