/** When a worker claims, and how a claim whose answer was lost is asked again. */

import type { Claim, Claimed, Lease } from '../records.js'
import { now } from './clock.js'
import type { Settings } from './settings.js'

/** The claims of one child. One is under way at most; it keeps its nonce until it is answered. */
export class Claims {
  /** Whether there may be work that nobody claims. */
  isHungry = true
  /** When the next scheduled record is due, by `now()`; Infinity for never. */
  dueAt = Infinity
  /** A later claim was made in this child's name; it must not claim again. */
  isStale = false
  readonly #settings: Settings
  #underWay: Claim | null = null
  /** Whether a claim of nothing is to follow, which wakes another. */
  #leaves = false
  #nonce = 0

  constructor(settings: Settings) {
    this.#settings = settings
  }

  get isUnderWay(): boolean {
    return this.#underWay !== null || this.#leaves
  }

  /** Claim no more, and wake another for what may be waiting, or for the time that was watched here. */
  leave(): void {
    this.#leaves = !this.isStale
  }

  /**
   * Return the claim to send: the one under way, or a new one for `count` leases; null for none.
   *
   * One under way that nothing is wanted of any more is repeated all the same: Redis then leases nothing new, and what
   * it leased before can be given back.
   */
  request(count: number): Claim | null {
    const leaves = this.#leaves
    this.#leaves = false
    if (this.#underWay !== null) return count > 0 ? this.#underWay : { ...this.#underWay, count: 0 }
    if (count <= 0 && !leaves) return null
    this.#nonce += 1
    const { child, leaseMs, queues } = this.#settings
    this.#underWay = { child, nonce: this.#nonce, count, leaseMs, queues }
    return this.#underWay
  }

  /** Take the answer, and return the leases. */
  answered(claimed: Claimed): readonly Lease[] {
    const asked = this.#underWay
    this.#underWay = null
    if (claimed.stale) {
      this.#settings.log.error(`Child ${this.#settings.child}: another claim was made in its name; it claims no more`)
      this.isStale = true
      return []
    }
    this.isHungry = asked !== null && claimed.leases.length >= asked.count
    this.dueAt = claimed.nextDueMs === null ? Infinity : now() + claimed.nextDueMs
    return claimed.leases
  }

  /** Become hungry when a scheduled record is due. */
  lookAtClock(): void {
    if (now() < this.dueAt) return
    this.dueAt = Infinity
    this.isHungry = true
  }
}
