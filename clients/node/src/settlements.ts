/** How a lease ends: one function a transition, which makes what the script of that name is told. */
import type { Argument } from './connection.js'
import { DEFAULT_RESULT_TTL_MS } from './envelope.js'

/** Anything that says which lease is meant. */
export interface Holding {
  readonly id: string
  readonly queue: string
  readonly token: number
}

/** The end of a lease. */
export interface Settlement {
  readonly script: 'complete' | 'retry' | 'bury' | 'release'
  readonly lease: Holding
  readonly arguments: readonly Argument[]
  readonly bytes: number
}

/** The task returned; `logJson` holds its result, `{}` when none is kept. */
export function complete(lease: Holding, logJson: string, resultTtlMs = DEFAULT_RESULT_TTL_MS): Settlement {
  return settlement('complete', lease, [resultTtlMs], logJson)
}

/** The attempt failed and another follows; with `lapsed` only if the lease has lapsed (for reapers). */
export function retry(
  lease: Holding, delayMs: number, logJson: string, lapsed = false, resultTtlMs = DEFAULT_RESULT_TTL_MS,
): Settlement {
  return settlement('retry', lease, [Number(lapsed), delayMs, resultTtlMs], logJson)
}

/** The last attempt failed, or the record can't run; with `lapsed` only if the lease has lapsed (for reapers). */
export function bury(
  lease: Holding, logJson: string, lapsed = false, resultTtlMs = DEFAULT_RESULT_TTL_MS,
): Settlement {
  return settlement('bury', lease, [Number(lapsed), resultTtlMs], logJson)
}

/** The record goes back as if never claimed. `unknown`: nobody here knew its name. */
export function release(lease: Holding, { delayMs = 0, unknown = false } = {}): Settlement {
  const noFloor = 0 // A token is raised only by who sees rows.
  return settlement('release', lease, [delayMs, noFloor, unknown ? 'unknown' : '', DEFAULT_RESULT_TTL_MS], '{}')
}

function settlement(script: Settlement['script'], lease: Holding, between: Argument[], logJson: string): Settlement {
  const { id, queue, token } = lease
  return { script, lease, arguments: [id, queue, token, ...between, logJson], bytes: Buffer.byteLength(logJson) }
}
