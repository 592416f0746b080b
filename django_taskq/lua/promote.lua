-- promote: one scheduled record is ready now.
-- KEYS[1] {ns}:queues
-- ARGV    id
-- Returns DONE, MISSING when it isn't scheduled, ORPHANED when it was, without a body
-- @include _orphan
-- @include _place
-- @include _search
local id = ARGV[1]
local text = head_text(id)
local head = parse_head(text or '')
local queue = queue_of(id, head, 'scheduled')
if not queue or not call('ZSCORE', QUEUE .. queue .. ':scheduled', id) then return 'MISSING' end
if not text then
  orphan(id, QUEUE .. queue .. ':scheduled')
  return 'ORPHANED'
end
call('ZREM', QUEUE .. queue .. ':scheduled', id)
place(id, queue, head.priority, now)
return 'DONE'
