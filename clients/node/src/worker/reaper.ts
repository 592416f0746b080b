/** End attempts whose lease has lapsed, of any worker and in any queue. */

import type { Broker } from '../broker.js'
import { UnknownVersion, UnreadableRecord } from '../errors.js'
import type { Lease } from '../records.js'
import type { Settlement } from '../settlements.js'
import { now } from './clock.js'
import { buriedUnread, failed, readEnvelope, tryAgain } from './endings.js'
import { describe } from './failures.js'
import { LeaseExpired } from './reasons.js'
import type { Settings } from './settings.js'
import { needsRow } from './tasks.js'

/** Ms from one look at lapsed leases to the next, at least. */
const SHORTEST_SLEEP_MS = 10
/** Leases that are passed over because of their rows, in one look. */
const MOST_PASSED = 20_000
/** Leases that are read at once. Where many are passed over more are read: their ids go along each time. */
const PAGE = 100
const LARGEST_PAGE = 1_000
const REASON = 'lease expired'

/**
 * Who holds a lease renews it first when Redis was away for all; so a reaper holds back after it was, and after its own
 * start, and when it stood still itself.
 */
export class Reaper {
  readonly #broker: Broker
  readonly #settings: Settings
  #wasAway = false
  #lookedAt = now()
  #notBefore: number

  constructor(broker: Broker, settings: Settings) {
    this.#broker = broker
    this.#settings = settings
    this.#notBefore = this.#lookedAt + settings.leaseMs / 3
  }

  /** Reap what has lapsed; return the ms until the next lapse. */
  async work(): Promise<number> {
    const { leaseMs } = this.#settings
    const begun = now()
    const stoodStill = begun - this.#lookedAt > leaseMs
    this.#lookedAt = begun
    try {
      await this.#broker.ping()
      if (this.#wasAway || stoodStill) {
        this.#wasAway = false
        this.#notBefore = now() + leaseMs
      }
      const pause = this.#notBefore - now()
      return pause > 0 ? Math.min(pause, leaseMs / 3) : await this.#look()
    } catch (error) {
      this.#wasAway = true
      throw error
    }
  }

  async #look(): Promise<number> {
    const longest = this.#settings.leaseMs / 3
    const queues = await this.#broker.queues()
    const passed: string[] = []
    while (queues.length > 0) {
      const limit = Math.max(PAGE, Math.min(passed.length, LARGEST_PAGE))
      const { leases, nextLapseMs } = await this.#broker.expired(queues, limit, passed)
      passed.push(...(await this.#reap(leases)))
      if (nextLapseMs === null || passed.length >= MOST_PASSED) break
      if (nextLapseMs > 0) return Math.max(SHORTEST_SLEEP_MS, Math.min(nextLapseMs, longest))
    }
    return longest
  }

  /** End the attempts of lapsed leases; return the ids of those that only a worker with their rows may end. */
  async #reap(leases: readonly Lease[]): Promise<string[]> {
    const ends = leases.map((lease) => this.#end(lease))
    const settlements = ends.filter((end) => end !== null)
    const { words } = await this.#broker.exchange(settlements, null)
    settlements.forEach(({ lease }, index) => {
      if (words[index] !== 'DONE') return
      this.#settings.log.warn(`The lease of ${lease.id} has lapsed; its attempt has failed`)
    })
    return leases.filter((_, index) => ends[index] === null).map(({ id }) => id)
  }

  /** Return the end of a lapsed lease; null for one that isn't ours to end. */
  #end(lease: Lease): Settlement | null {
    const envelope = readEnvelope(lease)
    if (needsRow(lease, envelope)) return null
    const error = describe(new LeaseExpired(), REASON)
    if (envelope instanceof UnknownVersion) return tryAgain(lease, error)
    if (envelope instanceof UnreadableRecord) return buriedUnread(lease, error, true)
    // One that was asked to end does, with whatever settles it.
    return failed(lease, envelope, error, { afterMs: lease.cancelRequested ? 0 : null }, true)
  }
}
