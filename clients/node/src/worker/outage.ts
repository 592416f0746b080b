/** Wait while Redis can't be reached, and say so. */

import { now } from './clock.js'
import type { Log } from './settings.js'

/** Ms between two lines about one outage. */
const MESSAGE_INTERVAL_MS = 60_000
/** Ms to wait after the first failure, and at most. */
const FIRST_PAUSE_MS = 50
export const LONGEST_PAUSE_MS = 2_000

/** Counts the failures in a row of each part of a worker; the log gets one line for all of them, and one at the end. */
export class Outage {
  readonly #log: Log
  readonly #who: string
  readonly #failures = new Map<string, number>()
  #since = 0
  #toldAt = 0

  constructor(log: Log, who: string) {
    this.#log = log
    this.#who = who
  }

  /** Whether a part got no answer when it last asked. */
  lasts(part: string): boolean {
    return this.#failures.has(part)
  }

  /** Return the ms that a part waits before its next try: growing, with jitter. */
  failed(part: string, error: Error, longestMs = LONGEST_PAUSE_MS): number {
    const moment = now()
    const begins = this.#failures.size === 0
    if (begins) this.#since = moment
    const failures = this.#failures.get(part) ?? 0
    this.#failures.set(part, failures + 1)
    if (begins || moment - this.#toldAt >= MESSAGE_INTERVAL_MS) {
      this.#toldAt = moment
      this.#log.warn(`${this.#who}: ${error.message}; trying again until it answers`)
    }
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(failures, 10), longestMs)
    return pause * (0.5 + Math.random() / 2)
  }

  /** Note that a part got an answer; tell whether an outage ended for it. */
  over(part: string): boolean {
    if (!this.#failures.delete(part)) return false
    if (this.#failures.size === 0) {
      this.#log.warn(`${this.#who}: Redis answers again after ${((now() - this.#since) / 1000).toFixed(1)} s`)
    }
    return true
  }
}
