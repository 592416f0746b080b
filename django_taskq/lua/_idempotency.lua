-- @include _head
-- An idempotency key belongs to the record it names, as long as that record blocks repeats.

local function idem_key(key) return ns .. 'idem:' .. key end

-- The record that holds a key against `id`: its id, state and head; nil when the key is free to take.
local function holder(key, id)
  local owner = pcall('GET', idem_key(key))
  if type(owner) ~= 'string' or owner == id then return nil end
  local text, run = head_text(owner), run_fields(owner, 'state')
  if not text or alias_of(text) or not run then return nil end
  local state = run[1] or 'waiting'
  if state == 'dead' or state == 'cancelled' then return nil end
  return owner, state, parse_head(text)
end
