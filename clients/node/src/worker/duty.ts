/** A small piece of work that a worker does again and again, whatever happens to it. */

import { TaskqError } from '../errors.js'
import { Bell } from './clock.js'
import { LONGEST_PAUSE_MS, type Outage } from './outage.js'
import type { Log } from './settings.js'

/** Ms to wait after an unexpected failure. */
const PAUSE_AFTER_FAILURE_MS = 1_000

/** Calls `work`, which resolves to the ms until it is to be called again. What it throws is logged, and it goes on. */
export class Duty {
  readonly name: string
  /** How often it failed, for another reason than that Redis was away. */
  failures = 0
  readonly #work: () => Promise<number>
  readonly #outage: Outage
  readonly #log: Log
  readonly #longestPauseMs: number
  readonly #bell = new Bell()
  #isStopped = false

  constructor(name: string, work: () => Promise<number>, outage: Outage, log: Log, longestPauseMs = LONGEST_PAUSE_MS) {
    this.name = name
    this.#work = work
    this.#outage = outage
    this.#log = log
    this.#longestPauseMs = longestPauseMs
  }

  /** Do it until it is stopped. */
  async run(): Promise<void> {
    while (!this.#isStopped) await this.#bell.wait(await this.#round())
  }

  /** Do it now. */
  poke(): void {
    this.#bell.ring()
  }

  /** Do it no more. What is under way isn't waited for. */
  stop(): void {
    this.#isStopped = true
    this.#bell.ring()
  }

  /** Do it once, and return the ms to wait. */
  async #round(): Promise<number> {
    try {
      const pause = await this.#work()
      this.#outage.over(this.name)
      return pause
    } catch (error) {
      if (this.#isStopped) return 0
      if (error instanceof TaskqError) return this.#outage.failed(this.name, error, this.#longestPauseMs)
      this.failures += 1
      this.#log.error(`Duty '${this.name}' failed; it goes on:`, error)
      return PAUSE_AFTER_FAILURE_MS
    }
  }
}
