-- read: everything that Redis holds about some records, each at one moment; no more of them than make about 1 MiB.
-- KEYS[1] {ns}:queues
-- ARGV    id...
-- Returns for each of the first ids (one at least) a list: task string (empty: none), its PTTL, run hash (flat), log
--         lines, then its scores in ready, scheduled, leased and dead (empty: not there)
-- @include _search
local PAGE_BYTES = 1048576
local reply, bytes = {}, 0

local function list(command, ...)
  local found = pcall(command, ...)
  if type(found) ~= 'table' or found.err then return {} end
  for _, value in ipairs(found) do bytes = bytes + #value end
  return found
end

for i, id in ipairs(ARGV) do
  if bytes >= PAGE_BYTES then break end
  local text, task = head_text(id), pcall('GET', TASK .. id)
  local record = {
    type(task) == 'string' and task or '', call('PTTL', TASK .. id),
    list('HGETALL', RUN .. id), list('LRANGE', LOG .. id, 0, -1),
  }
  bytes = bytes + #record[1]
  local head = parse_head(text or '')
  local placed = text and not alias_of(text) or #record[3] > 0
  for _, part in ipairs({'ready', 'scheduled', 'leased', 'dead'}) do
    local queue = placed and queue_of(id, head, part)
    record[#record + 1] = queue and call('ZSCORE', QUEUE .. queue .. ':' .. part, id) or ''
  end
  reply[i] = record
end
return reply
