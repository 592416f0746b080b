-- @include _base
-- Numbers of a run hash, which a stranger may have written.

-- Most digits of a count and of a moment or token in a run hash: what every client can hold.
local COUNT, MOMENT = 9, 14

-- A number of a run hash, as it stands there; a false value where it is missing or is none.
local function digits(text, most) return text and #text <= most and string.find(text, '^%d+$') and text end
