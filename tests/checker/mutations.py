"""The rules that protocol.md marks with a diamond, each taken out of a script or of the clients.

Those of its section 6, pause and limits come with what they are about. That `requeue` clears `cancel_requested` has no
mutation: no dead record bears the mark while retry, bury and release heed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .actors import Rules


@dataclass(frozen=True)
class Mutation:
    """A rule that is taken out, and the promises of which one must then break."""

    name: str
    promises: tuple[str, ...]
    #: What the runs dwell on.
    theme: str
    #: Script -> (text, what stands there instead).
    scripts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)


def without(rule: str, promises: str, theme: str, script: str, old: str, new: str = "") -> Mutation:
    """Take a rule out of one script; promises are separated by commas."""
    return Mutation(rule, tuple(promises.split(", ")), theme, {script: [(old, new)]})


def careless(rule: str, promises: str, theme: str, rules: Rules) -> Mutation:
    """Take a rule from the clients."""
    return Mutation(rule, tuple(promises.split(", ")), theme, rules=rules)


LAST_TOKEN = "(digits(run[2], MOMENT) or 0) + 1"
NEW_TOKEN = f"math.max({LAST_TOKEN}, now)"
READ_TASK = "local task, run = pcall('GET', TASK .. id), NEVER_CLAIMED"
SET_KEY = "if head.key then call('SET', idem_key(head.key), id) end"
KEY_TTL = "call('PEXPIREAT', idem_key(head.key), exact(now + head.key_ttl))"
KEEP = "math.max(result_ttl, head.key_ttl, MINUTE, head.record and DAY or 0)"
ADD_READY = "call('ZADD', QUEUE .. queue .. ':ready', exact(due - priority * 1e13), id)"
RETURN_READY = "call('ZADD', QUEUE .. queue .. ':ready', run[SCORE], id)"
TAIL = "gap == 0 or (gap and took_all) or call('ZCARD', QUEUE .. ARGV[i] .. ':ready') > 0"

#: Invariants 2 and 3.
TOKENS = [
    without(
        "a settle shows the token",
        "fence, changed, word",
        "everyday",
        "_settle",
        "not run or run[2] ~= token",
        "not run",
    ),
    without("a token follows the last one", "token", "copies", "_lease", NEW_TOKEN, "now"),
    without("a token follows the clock", "token", "copies", "_lease", NEW_TOKEN, LAST_TOKEN),
    without(
        "a release raises the token to its floor",
        "token",
        "copies",
        "release",
        "math.max(tonumber(run[2]), floor)",
        "run[2]",
    ),
]

#: Invariant 7.
ORDER = [
    Mutation(
        "an id leaves its set after the read",
        ("one place", "changed", "error"),
        "damage",
        {
            "_lease": [
                (
                    READ_TASK,
                    "call('ZREM', QUEUE .. queue .. ':ready', id)\n  " + READ_TASK.replace("pcall", "call"),
                )
            ]
        },
    ),
    without("record keys are read with pcall", "error", "damage", "_head", "pcall('GETRANGE'", "call('GETRANGE'"),
    without(
        "a settle checks before it writes",
        "one place, word",
        "everyday",
        "complete",
        "local run, text, word = leave(",
        "call('ZREM', QUEUE .. ARGV[first + 1] .. ':leased', id)\n  local run, text, word = leave(",
    ),
]

#: Invariant 9, enqueue and settling.
ONCE = [
    without(
        "an enqueue finds its alias",
        "doubled, word",
        "keys",
        "enqueue",
        "'PX', head.record and DAY or MINUTE",
        "'PX', 1",
    ),
    without(
        "an enqueue finds its record",
        "doubled",
        "everyday",
        "enqueue",
        "if call('EXISTS', task_key, RUN .. id) > 0 then",
        "if false then",
    ),
    without(
        "an enqueue puts back what is in no set",
        "lost",
        "damage",
        "_heal",
        "if text then heal(",
        "if false then heal(",
    ),
    without(
        "no script deletes a run hash",
        "lost, doubled, key",
        "everyday",
        "_ending",
        "call('PEXPIREAT', RUN .. id, exact(now + keep))",
        "call('DEL', RUN .. id)",
    ),
    without(
        "an ended record stays as long as its result", "lost", "ends", "_ending", KEEP, KEEP.replace("result_ttl, ", "")
    ),
    without(
        "an ended record stays as long as its key",
        "key, word",
        "ends",
        "_ending",
        KEEP,
        KEEP.replace("head.key_ttl, ", ""),
    ),
    without("an ended record stays a minute", "doubled, word", "ends", "_ending", KEEP, KEEP.replace("MINUTE, ", "")),
    without(
        "an ended record with a row stays a day", "doubled, word", "ends", "_ending", KEEP, KEEP.replace("DAY", "0")
    ),
    without("a log stays as long as its result", "log", "ends", "_ending", "now + math.max(result_ttl, MINUTE)", "now"),
    without(
        "a settle sent again is answered ALREADY",
        "word",
        "everyday",
        "_settle",
        "run[1] == goal and 'ALREADY' or ",
    ),
]

#: Invariant 9, claims, and acts on dead letters.
NONCES = [
    without(
        "an older nonce is stale",
        "unknown lease",
        "repeats",
        "claim",
        "if nonce < tonumber(last[1] or 0) then return {'STALE'} end",
    ),
    without(
        "the same nonce gives the same leases",
        "unknown lease",
        "repeats",
        "claim",
        "if last[1] and nonce == tonumber(last[1]) then",
        "if false then",
    ),
    careless("a repeated claim has the same nonce", "unknown lease", "repeats", Rules(same_nonce_when_repeated=False)),
    careless("a dead child's last claim is fenced off", "unknown lease", "repeats", Rules(fence_dead_children=False)),
    careless(
        "what a dead child never learned of is released",
        "unknown lease",
        "repeats",
        Rules(release_unknown_leases=False),
    ),
    without(
        "a requeue or discard names the death",
        "undid",
        "deaths",
        "_dead",
        "if not score or score ~= tonumber(died_at) then",
        "if not score then",
    ),
]

#: Invariant 10.
KEYS = [
    without("key and record are stored by one script", "key", "keys", "enqueue", SET_KEY),
    without("a key blocks another record", "key", "keys", "enqueue", "if owner then", "if false then"),
    without("complete gives the key its TTL", "ttl", "keys", "complete", KEY_TTL),
    without("complete remembers the key", "key", "keys", "complete", KEY_TTL, "call('DEL', idem_key(head.key))"),
    without("bury frees the key", "key, ttl", "deaths", "bury", "free_key(head.key, id)"),
    without("cancel and discard free the key", "key, ttl", "keys", "_ending", "free_key(head.key, id)"),
    without(
        "a key is freed by its own record only",
        "key",
        "keys",
        "_ending",
        "if key and pcall('GET', idem_key(key)) == id then",
        "if key then",
    ),
    without(
        "requeue asks for the key",
        "key",
        "deaths",
        "requeue",
        "if head and head.key and holder(head.key, id) then",
        "if false then",
    ),
    without("requeue takes the key again", "key", "deaths", "requeue", SET_KEY),
    without(
        "a key whose record is gone is taken over",
        "key",
        "damage",
        "_idempotency",
        "if not text or alias_of(text) or not run then return nil end",
        "text, run = text or '', run or {}",
    ),
]

#: Invariant 11.
REAPING = [
    without(
        "a reaper's settle is refused while the lease holds",
        "taken",
        "lapses",
        "_settle",
        "if score and not has_lapsed(tonumber(score)) then return nil, nil, 'HELD' end",
    ),
    without(
        "a lease far ahead counts as lapsed",
        "word",
        "lapses",
        "_settle",
        "score <= now or score > now + DAY",
        "score <= now",
    ),
    without(
        "a lease far ahead is shown as lapsed",
        "reap",
        "lapses",
        "expired",
        "for _, id in ipairs(odd) do ids[#ids + 1] = id end",
    ),
    without(
        "a lapsed lease that nobody took is renewed",
        "word",
        "lapses",
        "renew",
        "call('ZSCORE', leased, id) then",
        "tonumber(call('ZSCORE', leased, id) or 0) > now then",
    ),
    without(
        "a lapsed lease that nobody took is settled",
        "word",
        "lapses",
        "_settle",
        "if call('ZREM', leased, id) == 0 then",
        "if lapsed ~= '1' and tonumber(call('ZSCORE', leased, id) or now) <= now or call('ZREM', leased, id) == 0 then",
    ),
]

#: Invariant 14.
CANCELLING = [
    without(
        f"{script} revives no cancelled record", "cancel", "cancels", script, "if run[CANCEL] then", "if false then"
    )
    for script in ("retry", "bury", "release")
]

#: Section 4, on waiting.
WAKING = [
    without("what is ready arms", "wake", "wakes", "_place", f"{ADD_READY}\n    arm(queue)", ADD_READY),
    without(
        "what is due soonest arms",
        "watch, wake",
        "wakes",
        "_place",
        "if not armed[queue] and call('ZRANGE', scheduled, '0', '0')[1] == id then arm(queue) end",
    ),
    without("a release arms", "wake", "wakes", "release", f"{RETURN_READY}\n      arm(queue)", RETURN_READY),
    without("a claim arms for what it left", "wake", "wakes", "_watch", TAIL, "gap == 0 or (gap and took_all)"),
    without(
        "a full claim hands over the watch",
        "watch, wake",
        "wakes",
        "_watch",
        TAIL,
        TAIL.replace(" or (gap and took_all)", ""),
    ),
    careless("who pops a marker and doesn't claim arms again", "wake, watch", "wakes", Rules(rearm_after_pop=False)),
    careless("a child claims when work is due", "wake", "wakes", Rules(claim_when_due=False)),
    careless("a child claims before it waits", "wake, watch", "wakes", Rules(claim_before_waiting=False)),
]

MUTATIONS = [*TOKENS, *ORDER, *ONCE, *NONCES, *KEYS, *REAPING, *CANCELLING, *WAKING]
