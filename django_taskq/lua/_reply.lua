-- @include _number
-- A leased record as a reply: id, queue, token, attempts, releases, milliseconds since a worker first didn't know its
-- name (-1: all did), and the task string.
local PAGE_BYTES = 1048576

local function append(reply, id, queue, token, attempts, releases, unknown_since, task)
  local last, since = #reply, digits(unknown_since, MOMENT)
  reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = id, queue, token, attempts
  reply[last + 5] = digits(releases, COUNT) or 0
  reply[last + 6] = since and math.max(0, now - since) or -1
  reply[last + 7] = task
end
