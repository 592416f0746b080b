/** Wait for the wake marker, beside all else. */

import { type Broker, LONGEST_WAIT_MS } from '../broker.js'
import { TaskqError } from '../errors.js'
import { Bell } from './clock.js'
import type { Outage } from './outage.js'
import type { Log } from './settings.js'

/** Ms to wait after an unexpected failure. */
const PAUSE_AFTER_FAILURE_MS = 1_000
const PART = 'waiting'

/** Waits when asked to, once at a time, and tells: the queue whose marker was popped, or null to look anyway. */
export class Waiter {
  /** Whether a wait is under way. */
  waits = false
  readonly #broker: Broker
  readonly #outage: Outage
  readonly #log: Log
  readonly #tell: (queue: string | null) => void
  readonly #bell = new Bell()
  #isStopped = false

  constructor(broker: Broker, outage: Outage, log: Log, tell: (queue: string | null) => void) {
    this.#broker = broker
    this.#outage = outage
    this.#log = log
    this.#tell = tell
  }

  /** Wait once for work in any of these queues. */
  ask(queues: readonly string[]): void {
    this.waits = true
    void this.#wait(queues)
  }

  /** Wait no more, also not for what is under way. */
  stop(): void {
    this.#isStopped = true
    this.#broker.stopWaiting()
    this.#bell.ring()
  }

  async #wait(queues: readonly string[]): Promise<void> {
    const queue = await this.#pop(queues)
    this.waits = false
    this.#tell(queue)
  }

  /** Wait for a marker; whatever goes wrong, the child looks for work and asks again. */
  async #pop(queues: readonly string[]): Promise<string | null> {
    try {
      const queue = await this.#broker.wait(queues, LONGEST_WAIT_MS)
      this.#outage.over(PART)
      return queue
    } catch (error) {
      if (!this.#isStopped) await this.#bell.wait(this.#pauseAfter(error))
      return null
    }
  }

  #pauseAfter(error: unknown): number {
    if (error instanceof TaskqError) return this.#outage.failed(PART, error)
    this.#log.error('Waiting for work failed:', error)
    return PAUSE_AFTER_FAILURE_MS
  }
}
