/** One leased record on its way through a worker. */

import type { Lease } from '../records.js'
import { now } from './clock.js'
import { CancelRequested, LeaseLost, TaskTimeout, WorkerStopped } from './reasons.js'

export class Run {
  readonly lease: Lease
  /** The name of its task, once that is known. */
  name = ''
  /** The end of the lease as far as is known here, by `now()`. */
  deadline: number
  cancelRequested: boolean
  /** Whether it has an outcome; its lease is held until that is settled. */
  hasEnded = false
  /** Whether it went on after its time limit until it wasn't waited for any more. */
  isOverdue = false
  /** Whether the worker gives it back, whatever the task still does. */
  goesBack = false
  #hasLost = false
  #abort: AbortController | undefined

  constructor(lease: Lease) {
    this.lease = lease
    this.deadline = lease.deadline
    this.cancelRequested = lease.cancelRequested
  }

  // Made when somebody looks, which most tasks don't.
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether the lease is known to be another's, or may be, since nobody renewed it in time. */
  get isLost(): boolean {
    return this.#hasLost || now() >= this.deadline
  }

  /** Hear that the lease now holds until `deadline`. */
  renewed(deadline: number): void {
    this.deadline = deadline
  }

  /** Hear that the lease is another's; tell whether that is news. */
  lose(): boolean {
    const isNews = !this.#hasLost
    this.#hasLost = true
    this.lapse()
    return isNews
  }

  /** Hear that the lease may be another's. */
  lapse(): void {
    this.#controller.abort(new LeaseLost())
  }

  askToCancel(): void {
    this.cancelRequested = true
    this.#controller.abort(new CancelRequested())
  }

  /** Hear that the time limit is over. */
  exceed(): void {
    this.#controller.abort(new TaskTimeout())
  }

  /** Hear that the worker ends. */
  giveBack(): void {
    this.goesBack = true
    this.#controller.abort(new WorkerStopped())
  }

  get #controller(): AbortController {
    return (this.#abort ??= new AbortController())
  }
}
