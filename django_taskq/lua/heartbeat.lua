-- heartbeat: the presence of a worker. Nothing is decided by it.
-- KEYS[1] {ns}:queues
-- ARGV    worker, ttl_ms, field, value...
-- Returns how many workers were seen within a TTL, each within its own
-- @include _base
local worker, ttl = ARGV[1], tonumber(ARGV[2])
local presence, workers = ns .. 'worker:' .. worker, ns .. 'workers'
call('ZREMRANGEBYSCORE', workers, '-inf', now)
if #ARGV == 2 then
  call('ZREM', workers, worker)
  call('DEL', presence)
else
  call('HSET', presence, 'seen_at', now, unpack(ARGV, 3))
  call('PEXPIRE', presence, ttl)
  call('ZADD', workers, now + ttl, worker)
end
return call('ZCARD', workers)
