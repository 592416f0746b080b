/** What Redis and the connection to it say went wrong, as the errors of this package. */
import { BrokerError, BrokerUnavailable, ConfigurationError, OutOfMemory, type TaskqError } from './errors.js'

const UNAVAILABLE = new Set([
  'LOADING', 'READONLY', 'BUSY', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'MISCONF', 'NOREPLICAS', 'UNBLOCKED',
  'MOVED', 'ASK',
])
const REFUSED = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM'])
/** Settings that are wrong, which have no code of their own. */
const MISCONFIGURED = /AUTH <password> called|no password is set|unauthenticated|DB index is out of range/
/** The server has no room for us, and says so in answer to whatever we sent. */
const TURNED_AWAY = /max number of clients/
/** The node isn't the master any more: a new connection finds the one that is. */
const DEMOTED = new Set(['READONLY', 'UNBLOCKED'])
/** What the error of a script names that failed on its way; what it had written by then stays. */
const IN_SCRIPT = '@user_script'
/** The code of an error, which Redis 6.2 hides behind its own text when a script met it. */
const CODE = /(?:^|: ?-)([A-Z]+) /

/** Return the code of an error that Redis replied with, '' where it has none. */
export function codeOf(text: string): string {
  return CODE.exec(text)?.[1] ?? ''
}

/** Return the error that a reply of Redis stands for. */
export function refusal(text: string): TaskqError {
  const code = codeOf(text)
  const inside = text.includes(IN_SCRIPT)
  if (REFUSED.has(code) || MISCONFIGURED.test(text)) return new ConfigurationError(`Redis refuses us: ${text}`, inside)
  // These two meet a script at its first write, if at all.
  if (code === 'OOM') return new OutOfMemory(`Redis is at its maxmemory: ${text}`)
  if (UNAVAILABLE.has(code) || TURNED_AWAY.test(text)) return new BrokerUnavailable(text, false)
  return new BrokerError(text, inside)
}

/** Tell whether a reply says that another server is the master now. */
export function isDemotion(text: string): boolean {
  return DEMOTED.has(codeOf(text))
}

/** Return what an error of a connection says, also where it gathers one for each address that was tried. */
export function textOf(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(textOf))].join('; ')
  return error instanceof Error ? error.message : String(error)
}
