-- @include _base
-- The head of a task string: lines that end at an empty one. Nothing behind it is looked at.
local LAST_BYTE = '1023'

-- The start of a task string; nil when it is missing or of another type, or its id is none.
local function head_text(id)
  if not is_id(id) then return end
  local text = pcall('GETRANGE', TASK .. id, '0', LAST_BYTE)
  if type(text) == 'string' and text ~= '' then return text end
end

-- A head that can't be read counts as priority 0; its reader buries the record with its bytes kept.
local function parse_head(text)
  local lines = string.sub(text, 1, (string.find(text, '\n\n', 1, true) or 0))
  local enqueued_at, priority, queue = string.match(lines, '^(%d+) (%-?%d+) ([^\n]*)\n')
  local key_ttl, key = string.match(lines, '\nkey (%d+) ([^\n]*)\n')
  return {
    enqueued_at = tonumber(enqueued_at) or now, priority = tonumber(priority) or 0, queue = queue,
    key = key, key_ttl = math.min(tonumber(key_ttl) or 0, LONGEST_TTL),
    record = string.find(lines, '\nrecord ', 1, true) ~= nil,
  }
end

-- The key and record of a head, for those who need no more: most heads are one line.
local ONE_LINE = {key_ttl = 0, record = false}
local function parse_lines(text) return string.find(text, '^[^\n]*\n\n') and ONE_LINE or parse_head(text) end

local function alias_of(text) return string.match(text, '^alias (%S+)') end
