/**
 * What can go wrong between a client and the queue, and what a task throws to say how it ends.
 *
 *     TaskqError
 *     ├── InvalidName            a namespace, queue, key, id, task or worker name that the protocol refuses
 *     ├── UnreadableRecord       what Redis holds is no envelope
 *     │   └── UnknownVersion     it is one, of a version that is newer than this release
 *     ├── RequestError
 *     │   ├── ConfigurationError the URL, the password or the rights are wrong; waiting won't help
 *     │   ├── BrokerError        Redis refused a request
 *     │   │   └── OutOfMemory    it is at its maxmemory; nothing was stored
 *     │   └── BrokerUnavailable  Redis didn't answer, or can't serve now
 *     └── EnqueueError           a task that was accepted could not be stored
 *     TaskSignal
 *     ├── Retry                  run me again
 *     └── Bury                   never run me again
 */

import { LONGEST_DELAY } from './retry.js'

const LONGEST_DELAY_MS = LONGEST_DELAY * 1000

/** An error that is named as its class is, also where the class is a user's own. */
class Named extends Error {
  override get name(): string {
    return this.constructor.name
  }
}

/** Something went wrong in the task queue. */
export class TaskqError extends Named {}

/** This name can't be used in the queue. */
export class InvalidName extends TaskqError {}

/** The stored record can't be decoded. */
export class UnreadableRecord extends TaskqError {}

/** The stored record has a newer version than this release can read. */
export class UnknownVersion extends UnreadableRecord {}

/** A request failed; `maybeExecuted` says whether it, or a part of it, may have been carried out all the same. */
export class RequestError extends TaskqError {
  constructor(
    message: string,
    readonly maybeExecuted = false,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The connection to Redis is set up wrongly. */
export class ConfigurationError extends RequestError {}

/** Redis refused the request, or a script failed. */
export class BrokerError extends RequestError {}

/** Redis has reached its maxmemory and stores nothing new. */
export class OutOfMemory extends BrokerError {}

/** Redis can't be reached now. */
export class BrokerUnavailable extends RequestError {
  constructor(message: string, maybeExecuted: boolean, options?: ErrorOptions) {
    super(message, maybeExecuted, options)
  }
}

/**
 * Redis didn't confirm that it has stored tasks.
 *
 * `ids` names them; with `maybeStored` some may be in the queue all the same. Enqueuing a record
 * again under its id does nothing when it is there.
 */
export class EnqueueError extends TaskqError {
  constructor(
    readonly ids: readonly string[],
    readonly maybeStored: boolean,
    cause: unknown,
  ) {
    const what = ids.length === 1 ? 'it' : 'some'
    const outcome = maybeStored ? `${what} may have been stored` : 'nothing was stored'
    const shown = ids.slice(0, 3).join(', ') + (ids.length > 3 ? ` and ${ids.length - 3} more` : '')
    const why = cause instanceof Error ? cause.message : String(cause)
    super(`Could not enqueue ${shown}: ${why} (${outcome})`, { cause })
  }
}

/** A task says how its attempt ends. */
class TaskSignal extends Named {}

/** Fail this attempt and run the task again, `afterMs` milliseconds from now; null: as its backoff says. */
export class Retry extends TaskSignal {
  readonly afterMs: number | null

  constructor(afterMs: number | null = null) {
    if (afterMs !== null && typeof afterMs !== 'number') {
      throw new TypeError(`Retry takes a number of milliseconds, not ${String(afterMs)}.`)
    }
    if (afterMs !== null && !(afterMs >= 0 && afterMs <= LONGEST_DELAY_MS)) {
      throw new RangeError(`Retry takes a number of milliseconds from 0 to ${LONGEST_DELAY_MS}, not ${afterMs}.`)
    }
    super('The task asked to be retried' + (afterMs === null ? '.' : ` after ${afterMs / 1000} s.`))
    this.afterMs = afterMs
  }
}

/** Make the task a dead letter, whatever attempts it has left; `reason` is what its record says first. */
export class Bury extends TaskSignal {
  constructor(
    message = '',
    readonly reason = message,
    options?: ErrorOptions,
  ) {
    super(message || 'The task asked to be buried.', options)
  }
}
