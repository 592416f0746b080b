-- @include _orphan
-- @include _search
-- A dead letter as a person saw it: acting on one that has moved on since would undo somebody's work.

-- Its head and queue; or nil and the word that says why not.
local function dead_record(id, died_at)
  local text = head_text(id)
  local head = parse_head(text or '')
  local queue = queue_of(id, head, 'dead')
  local score = queue and tonumber(call('ZSCORE', QUEUE .. queue .. ':dead', id))
  if not score or score ~= tonumber(died_at) then return nil, 'CHANGED' end
  if not text or not run_fields(id, 'state') then
    orphan(id, QUEUE .. queue .. ':dead')
    return nil, 'ORPHANED'
  end
  return head, queue
end
