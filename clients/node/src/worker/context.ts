/** What a task is given: what is known about its lease while it runs. */

import type { Taskq } from '../taskq.js'
import type { Run } from './run.js'

/** A function that runs a task; what it returns, or resolves to, is the result. */
// What it is called with is between it and those who enqueue it.
export type Handler = (args: any, kwargs: any, context: Context) => unknown

export class Context {
  /** The queue that the task came from, to enqueue others. */
  readonly taskq: Taskq
  readonly #run: Run

  /** @internal */
  constructor(run: Run, taskq: Taskq) {
    this.#run = run
    this.taskq = taskq
  }

  /** The id of the record. */
  get id(): string {
    return this.#run.lease.id
  }

  get name(): string {
    return this.#run.name
  }

  get queue(): string {
    return this.#run.lease.queue
  }

  /** The number of this attempt, from 1. */
  get attempt(): number {
    return this.#run.lease.attempt
  }

  /** Grows with each attempt; show it to what must refuse a stale one. */
  get fencingToken(): number {
    return this.#run.lease.token
  }

  get idempotencyKey(): string | null {
    return this.#run.lease.head.key
  }

  /**
   * Aborted when this attempt shall end; `TaskTimeout`, `LeaseLost`, `CancelRequested` or `WorkerStopped` is why.
   */
  get signal(): AbortSignal {
    return this.#run.signal
  }

  /** Whether another worker may run this task by now, so that nothing it does counts. */
  get leaseLost(): boolean {
    return this.#run.isLost
  }

  /** Whether someone asked for this task to end. */
  get cancelRequested(): boolean {
    return this.#run.cancelRequested
  }
}
