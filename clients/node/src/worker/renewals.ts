/** Keep the leases alive that a worker holds, all in one call. */

import type { Broker } from '../broker.js'
import { after, now } from './clock.js'
import type { Run } from './run.js'
import type { Settings } from './settings.js'

export class Renewals {
  readonly #broker: Broker
  readonly #settings: Settings
  readonly #held: Iterable<Run>
  #forget = () => {}

  constructor(broker: Broker, settings: Settings, held: Iterable<Run>) {
    this.#broker = broker
    this.#settings = settings
    this.#held = held
  }

  /** Renew everything once; return the ms until the next time. */
  async work(): Promise<number> {
    const { leaseMs } = this.#settings
    const sentAt = now()
    const runs = [...this.#held]
    this.#watch()
    const words = await this.#broker.renew(runs.map(({ lease }) => lease), leaseMs)
    runs.forEach((run, index) => this.#heed(run, words[index]!, sentAt + leaseMs))
    this.#forget()
    return Math.max(0, sentAt + leaseMs / 3 - now())
  }

  /** Watch no more. */
  stop(): void {
    this.#forget()
  }

  #heed(run: Run, word: string, deadline: number): void {
    if (word !== 'LOST') {
      run.renewed(deadline)
      if (word === 'CANCEL') run.askToCancel()
    } else if (!run.hasEnded && run.lose()) {
      // One that was settled meanwhile isn't lost.
      this.#settings.log.info(`The lease of ${run.lease.id} was lost while it ran`)
    }
  }

  /** Until Redis answers, tell each task whose lease lapses meanwhile. */
  #watch(): void {
    this.#forget()
    let next = Infinity
    for (const run of this.#held) {
      if (run.hasEnded) continue
      if (run.isLost) run.lapse()
      else next = Math.min(next, run.deadline)
    }
    if (next !== Infinity) this.#forget = after(next - now(), () => this.#watch())
  }
}
