-- read: everything that Redis holds about some records, each at one moment.
-- KEYS[1] {ns}:queues
-- ARGV    id...
-- Returns for each id a list: task string (empty: none), its PTTL, run hash (flat), log lines, then its scores in
--         ready, scheduled, leased and dead (empty: not there)
-- @include _head
local reply = {}

local function list(command, ...)
  local found = redis.pcall(command, ...)
  if type(found) == 'table' and not found.err then return found end
  return {}
end

for i, id in ipairs(ARGV) do
  local text, task = head_text(id), redis.pcall('GET', task_key(id))
  local record = {
    type(task) == 'string' and task or '', redis.call('PTTL', task_key(id)),
    list('HGETALL', run_key(id)), list('LRANGE', log_key(id), 0, -1),
  }
  local head = parse_head(text or '')
  for _, part in ipairs({'ready', 'scheduled', 'leased', 'dead'}) do
    local queue = not (text and alias_of(text)) and queue_of(id, head, part)
    record[#record + 1] = queue and redis.call('ZSCORE', queue_key(queue, part), id) or ''
  end
  reply[i] = record
end
return reply
