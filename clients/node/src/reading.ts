/** Everything that Redis holds about one task. */
import type { Reply } from './connection.js'
import { Envelope, type Head, parseTask } from './envelope.js'
import type { Json } from './json.js'
import { type Attempt, type State, attemptOf, bytes, groups, integer, text } from './records.js'

const ALIAS = 'alias '
/** What the scripts don't take for a number counts as missing. */
const NUMBER = /^\d{1,14}$/
/** Attempts without a name that are listed at most: a stranger may have written how many there were. */
const MOST_NAMELESS = 100_000

/** A record, at one moment. Moments are ms on Redis's clock, null for none. */
export interface Record {
  id: string
  state: State
  task: Buffer
  head: Head
  envelopeBytes: Buffer
  /** Decodes the envelope; throws `UnreadableRecord`. */
  envelope(): Envelope
  attempts: number
  releases: number
  token: number
  worker: string | null
  startedAt: number | null
  lastAttemptedAt: number | null
  finishedAt: number | null
  cancelRequested: boolean
  dueAt: number | null
  leaseEndsAt: number | null
  diedAt: number | null
  expiresInMs: number | null
  /** The last 20 ended attempts of all rounds, oldest first. */
  history: Attempt[]
}

/** Return the record that a reply tells of, the id that it is an alias of, or null. */
export function recordOf(id: string, reply: Reply[], exact: boolean): Record | string | null {
  const [task, ttl, run, log, , ...scores] = reply
  const body = bytes(task)
  if (body.subarray(0, ALIAS.length).toString() === ALIAS) return body.toString('utf8', ALIAS.length)
  const fields = new Map(groups(run as Reply[], 2).map(([name, value]) => [text(name), text(value)]))
  const expiresInMs = integer(ttl)
  if (fields.size === 0 && (body.length === 0 || expiresInMs >= 0)) return null
  const [head, envelopeBytes] = parseTask(body, '')
  const [dueAt, leaseEndsAt, diedAt] = scores.map((score) => (text(score) ? Number(text(score)) : null))
  const number = (name: string): number | null => {
    const digits = fields.get(name) ?? ''
    return NUMBER.test(digits) ? Number(digits) : null
  }
  return {
    id,
    state: (fields.get('state') ?? 'waiting') as State,
    task: body, head, envelopeBytes,
    envelope: () => Envelope.fromBytes(envelopeBytes, exact),
    attempts: number('attempts') ?? 0,
    releases: number('releases') ?? 0,
    token: number('token') ?? 0,
    worker: fields.get('worker') ?? null,
    startedAt: number('started_at'),
    lastAttemptedAt: number('last_attempted_at'),
    finishedAt: number('finished_at'),
    cancelRequested: fields.has('cancel_requested'),
    dueAt: dueAt!, leaseEndsAt: leaseEndsAt!, diedAt: diedAt!,
    expiresInMs: expiresInMs >= 0 ? expiresInMs : null,
    history: (log as Reply[]).map((line) => attemptOf(bytes(line), exact)),
  }
}

/** Return how many attempts have ended since the record was enqueued or last requeued. */
function endedAttempts(record: Record): number {
  return record.attempts - Number(record.state === 'leased')
}

/** Return these, as far as the log goes back. */
export function roundOf(record: Record): Attempt[] {
  const ended = endedAttempts(record)
  return ended > 0 ? record.history.slice(-ended) : []
}

/** Return the child that made each attempt of this round; empty names, 100,000 at most, where the log is too short. */
export function workerIdsOf(record: Record): string[] {
  const names = roundOf(record).map((attempt) => attempt.child)
  const missing = Math.min(Math.max(endedAttempts(record) - names.length, 0), MOST_NAMELESS)
  const ended = [...new Array<string>(missing).fill(''), ...names]
  return record.state === 'leased' ? [...ended, record.worker ?? ''] : ended
}

/** Return what the task returned; null when it didn't succeed. */
export function resultOf(record: Record): Json {
  return record.state === 'succeeded' ? (record.history.at(-1)?.result ?? null) : null
}
