/** How an attempt ends, and what Redis is told about it. */

import { DEFAULT_BACKOFF, type Envelope } from '../envelope.js'
import { UnreadableRecord } from '../errors.js'
import { stringify } from '../json.js'
import { type AttemptError, errorJson, type Lease } from '../records.js'
import { decide } from '../retry.js'
import { bury, complete, retry, type Settlement } from '../settlements.js'

/** Text of a result for a task that returns nothing, and where none is kept. */
const NONE_JSON = '{"result":null}'
const NOT_KEPT_JSON = '{}'

/** Return how an attempt ends that returned `value`; throws when that can't be kept. */
export function succeeded(lease: Lease, envelope: Envelope, value: unknown, mostBytes: number): Settlement {
  const json = value === undefined || value === null ? NONE_JSON : resultJson(envelope.name, value, mostBytes)
  return complete(lease, envelope.resultTtlMs > 0 ? json : NOT_KEPT_JSON, envelope.resultTtlMs)
}

function resultJson(name: string, value: unknown, mostBytes: number): string {
  // Text that is none doesn't undo what the task has done, so it is mended.
  const json = `{"result":${stringify(value, `The result of ${name}`, true)}}`
  const size = Buffer.byteLength(json)
  if (size <= mostBytes) return json
  throw new RangeError(
    `The result of ${name} takes ${size} bytes, and max_payload_bytes is ${mostBytes}. ` +
      'Store it elsewhere and return a reference.',
  )
}

/** What a task may say about the attempt that follows. */
export interface Wish {
  /** Ms until then, in place of its policy's delay. */
  afterMs?: number | null
  /** No other shall follow. */
  isLast?: boolean
}

/** Decide what follows a failed attempt: the one place where that is decided. */
export function failed(
  lease: Lease,
  envelope: Envelope,
  error: AttemptError,
  wish: Wish = {},
  lapsed = false,
): Settlement {
  const byPolicy = decide(lease.attempt, envelope.maxAttempts, envelope.backoff, Math.random())
  const json = errorJson(error)
  if (byPolicy === null || wish.isLast) return bury(lease, json, lapsed, envelope.resultTtlMs)
  return retry(lease, Math.round(wish.afterMs ?? byPolicy), json, lapsed, envelope.resultTtlMs)
}

/** Return the envelope of a lease, or what is wrong with it. */
export function readEnvelope(lease: Lease, exact = false): Envelope | UnreadableRecord {
  try {
    return lease.envelope(exact)
  } catch (error) {
    if (error instanceof UnreadableRecord) return error
    throw error
  }
}

/** Return the end of what can't be read: it can't be run either. */
export function buriedUnread(lease: Lease, error: AttemptError, lapsed = false): Settlement {
  return bury(lease, errorJson(error), lapsed)
}

/** Return the end of a lapsed attempt at what a later version wrote: how many it may have can't be read here. */
export function tryAgain(lease: Lease, error: AttemptError): Settlement {
  return retry(lease, DEFAULT_BACKOFF.delayMs(lease.attempt, Math.random()), errorJson(error), true)
}
