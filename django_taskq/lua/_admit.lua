-- @include _base
-- At maxmemory a script goes on when its first executed write can't grow memory (invariant 8).
local function admit() call('ZREM', ns .. 'workers', '') end
