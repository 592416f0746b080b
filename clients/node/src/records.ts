/** Records, leases and attempts, as they come from Redis. All times are ms on Redis's clock. */
import type { Reply } from './connection.js'
import { Envelope, type Head, parseTask } from './envelope.js'
import { type Json, parse, stringify } from './json.js'

/** Bytes of an error's message and traceback that are kept. */
export const ERROR_BYTES = 65_536

export type State = 'waiting' | 'leased' | 'succeeded' | 'dead' | 'cancelled'

/** A record to enqueue, due after `delayMs` or at `atMs` (0: none), whichever is later. */
export interface NewRecord {
  id: string
  queue: string
  envelope: Buffer
  priority: number
  delayMs: number
  atMs: number
  key: string | null
  keyTtlMs: number
}

/** What became of one: `word` is STORED, EXISTS (sent before) or TAKEN (`id` is the key's holder). */
export interface Enqueued {
  word: 'STORED' | 'EXISTS' | 'TAKEN'
  id: string
  state: State
  enqueuedAt: number
}

/** A request for up to `count` leases. A child's nonce grows with each new claim, and stays when it is repeated. */
export interface Claim {
  readonly child: string
  readonly nonce: number
  readonly count: number
  readonly leaseMs: number
  readonly queues: readonly string[]
}

/** The leases of a claim, and the ms until the next due record; `stale` when a later nonce was seen. */
export interface Claimed {
  leases: Lease[]
  nextDueMs: number | null
  stale: boolean
}

/** Leases that have lapsed, and the ms until the next lapse. */
export interface Expired {
  leases: Lease[]
  nextLapseMs: number | null
}

/** The right to run a record until `deadline`, a moment of `performance.now()` counted from the request. */
export class Lease {
  readonly id: string
  readonly queue: string
  readonly token: number
  readonly attempt: number
  readonly releases: number
  readonly unknownMs: number | null
  readonly task: Buffer
  readonly claimedAt: number
  readonly deadline: number
  /** Whether it was when the lease was read, which only reapers are told. */
  readonly cancelRequested: boolean
  #parts: [Head, Buffer] | null = null

  /** Of the 7 values of a lease in a reply, and the one more that reapers get. */
  constructor(group: readonly Reply[], claimedAt: number, deadline: number) {
    const [id, queue, token, attempt, releases, unknownMs, task, cancelRequested = 0] = group
    this.id = text(id)
    this.queue = text(queue)
    this.token = integer(token)
    this.attempt = integer(attempt)
    this.releases = integer(releases)
    this.unknownMs = duration(unknownMs)
    this.task = bytes(task)
    this.claimedAt = claimedAt
    this.deadline = deadline
    this.cancelRequested = integer(cancelRequested) === 1
  }

  get head(): Head {
    return this.#parsed()[0]
  }

  get envelopeBytes(): Buffer {
    return this.#parsed()[1]
  }

  /** Decode the envelope; throws `UnreadableRecord`. */
  envelope(exact = false): Envelope {
    return Envelope.fromBytes(this.envelopeBytes, exact)
  }

  #parsed(): [Head, Buffer] {
    return (this.#parts ??= parseTask(this.task, this.queue))
  }
}

/** Why an attempt failed: the error's class and texts, and a `reason` where the queue gave one. */
export interface AttemptError {
  error: string
  message: string
  traceback: string
  reason: string
}

/** Return the log's JSON of an error, with long texts cut in the middle. */
export function errorJson({ error, message, traceback, reason }: AttemptError): string {
  const document = { error: cut(error), message: cut(message), traceback: cut(traceback) }
  return stringify(reason ? { ...document, reason: cut(reason) } : document, 'error')
}

function cut(whole: string): string {
  const safe = Buffer.from(whole.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`))
  if (safe.length <= ERROR_BYTES) return safe.toString()
  const half = ERROR_BYTES / 2
  let end = half
  while (isWithin(safe[end]!)) end -= 1
  let start = safe.length - half
  while (isWithin(safe[start]!)) start += 1
  return `${safe.toString('utf8', 0, end)}\n[${safe.length - 2 * half} bytes cut]\n${safe.toString('utf8', start)}`
}

/** Tell whether a byte of UTF-8 is inside of a character. */
function isWithin(byte: number): boolean {
  return (byte & 0xc0) === 0x80
}

/** An ended attempt, as its log line tells: with a result or an error, or both where its row wasn't saved. */
export interface Attempt {
  attempt: number
  token: number
  startedAt: number
  endedAt: number
  child: string
  error: AttemptError | null
  result: Json
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const LINE = /^(\d+) (\d+) (\d+) (\d+) (\S*) (.*)$/s

/** Read a log line; one that can't be read counts as an attempt with an unreadable error. */
export function attemptOf(line: Buffer, exact = false): Attempt {
  try {
    const [, attempt, token, startedAt, endedAt, child, json] = LINE.exec(decoder.decode(line))!
    const found = parse(json!, exact) as { [name: string]: Json } | Map<string, Json>
    if (typeof found !== 'object' || found === null || Array.isArray(found)) throw new TypeError('no object')
    const document = found instanceof Map ? found : new Map(Object.entries(found))
    const said = (name: string): string => String(document.get(name) || '')
    return {
      attempt: Number(attempt), token: Number(token), startedAt: Number(startedAt), endedAt: Number(endedAt),
      child: child!,
      error: document.has('error')
        ? { error: said('error'), message: said('message'), traceback: said('traceback'), reason: said('reason') }
        : null,
      result: document.get('result') ?? null,
    }
  } catch {
    const shown = line.toString('utf8', 0, 1000)
    const error = { error: '', message: "The log line can't be read.", traceback: shown, reason: 'unreadable' }
    return { attempt: 0, token: 0, startedAt: 0, endedAt: 0, child: '', error, result: null }
  }
}

/** Return the text of a reply. */
export function text(reply: Reply | undefined): string {
  return bytes(reply).toString()
}

/** Return the bytes of a reply. */
export function bytes(reply: Reply | undefined): Buffer {
  return reply instanceof Buffer ? reply : Buffer.from(String(reply))
}

/** Return the number that a reply is, or that its digits stand for. */
export function integer(reply: Reply | undefined): number {
  return typeof reply === 'number' ? reply : Number(text(reply))
}

/** Return a duration from a script, in which -1 stands for none. */
export function duration(reply: Reply | undefined): number | null {
  const ms = integer(reply)
  return ms < 0 ? null : ms
}

/** Return the values of a flat reply, so many at once. */
export function groups(replies: readonly Reply[], size: number): Reply[][] {
  const found: Reply[][] = []
  for (let start = 0; start < replies.length; start += size) found.push(replies.slice(start, start + size))
  return found
}
