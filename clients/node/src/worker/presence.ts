/** Tell that this worker is there. Nothing is decided by it. */

import { hostname } from 'node:os'

import type { Broker } from '../broker.js'
import type { Settings } from './settings.js'

export type Phase = 'starting' | 'serving' | 'draining' | 'releasing'

/** What a worker tells about itself besides what never changes. */
export interface Condition {
  phase: Phase
  /** Leases that it holds. */
  running: number
  /** Failures of its duties. */
  failures: number
}

export class Presence {
  readonly #broker: Broker
  readonly #settings: Settings
  readonly #condition: () => Condition
  readonly #startedAt = Date.now()

  constructor(broker: Broker, settings: Settings, condition: () => Condition) {
    this.#broker = broker
    this.#settings = settings
    this.#condition = condition
  }

  /** Write it; return the ms until the next time. */
  async work(): Promise<number> {
    const { name, queues, leaseMs } = this.#settings
    const { phase, running, failures } = this.#condition()
    const fields = {
      host: hostname(),
      pid: process.pid,
      started_at: this.#startedAt,
      queues: queues.join(','),
      excluded: '',
      phase,
      children: 1,
      ready: Number(phase === 'serving'),
      running,
      failures,
    }
    await this.#broker.heartbeat(name, fields, 3 * leaseMs)
    return leaseMs / 3
  }

  /** Take it away. */
  async leave(): Promise<void> {
    await this.#broker.heartbeat(this.#settings.name, {}, 3 * this.#settings.leaseMs)
  }
}
