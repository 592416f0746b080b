-- @include _head
-- Finding a record without the help of its head.

-- A call looks so often at most, or a thousand ids that are nowhere would hold up a server of many queues.
local queues, lookups = nil, 20000

-- Where a record is when its head no longer says so: the queue whose set `part` holds the id.
local function queue_of(id, head, part)
  if head.queue then return head.queue end
  queues = queues or call('SMEMBERS', KEYS[1])
  for _, queue in ipairs(queues) do
    if lookups == 0 then return end
    lookups = lookups - 1
    if call('ZSCORE', QUEUE .. queue .. ':' .. part, id) then return queue end
  end
end
