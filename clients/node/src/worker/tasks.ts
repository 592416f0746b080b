/** Run leased tasks: the only place where a user's code runs. */

import type { Envelope } from '../envelope.js'
import { Bury, Retry, UnknownVersion, UnreadableRecord } from '../errors.js'
import type { Lease } from '../records.js'
import { release, type Settlement } from '../settlements.js'
import type { Taskq } from '../taskq.js'
import { after } from './clock.js'
import { Context, type Handler } from './context.js'
import { buriedUnread, failed, readEnvelope, succeeded } from './endings.js'
import { describe, signalOf } from './failures.js'
import { TaskTimeout, UnknownTask } from './reasons.js'
import type { Run } from './run.js'
import type { Settings } from './settings.js'

/** Milliseconds by which the delay of an unknown task grows with each release, and at most. */
const UNKNOWN_STEP_MS = 5_000
const UNKNOWN_CAP_MS = 60_000
/** Characters of an error's text in a log line. */
const SHOWN = 200

/** Whether what a record does may have to be one transaction with its row, which can't be reached from here. */
export function needsRow(lease: Lease, envelope: Envelope | UnreadableRecord): boolean {
  return lease.head.recordAlias !== null || ('atomic' in envelope && envelope.atomic !== null)
}

/** The tasks that a worker knows. */
export class Tasks {
  readonly #settings: Settings
  readonly #taskq: Taskq

  constructor(settings: Settings, taskq: Taskq) {
    this.#settings = settings
    this.#taskq = taskq
  }

  /** Run a task; whatever it throws is an end. Never rejects. */
  async perform(run: Run): Promise<Settlement> {
    const { lease } = run
    try {
      // What hasn't begun goes back, for its lease may have lapsed meanwhile.
      if (run.isLost) return release(lease)
      const envelope = readEnvelope(lease, this.#taskq.exact)
      if (needsRow(lease, envelope)) return this.#unknown(lease, 'Its row is in a database', Infinity)
      if (envelope instanceof UnknownVersion) return this.#unknown(lease, envelope.message)
      if (envelope instanceof UnreadableRecord) return buriedUnread(lease, describe(envelope, 'unreadable record'))
      const task = this.#settings.tasks.get(envelope.name)
      if (task === undefined) return this.#unknown(lease, `No task '${envelope.name}' is known here`)
      return await this.#attempt(run, envelope, task)
    } catch (error) {
      this.#settings.log.error(`Running ${lease.id} failed outside the task:`, error)
      return buriedUnread(lease, describe(error, 'worker error'))
    }
  }

  async #attempt(run: Run, envelope: Envelope, task: Handler): Promise<Settlement> {
    run.name = envelope.name
    try {
      const body = () => task(envelope.args as unknown[], envelope.kwargs, new Context(run, this.#taskq))
      const value = await (envelope.timeoutMs === null ? body() : this.#limited(run, envelope.timeoutMs, body))
      return succeeded(run.lease, envelope, value, this.#taskq.maxPayloadBytes)
    } catch (error) {
      return run.goesBack ? release(run.lease) : this.#failed(run, envelope, error)
    }
  }

  /** Run a body within a time limit: first its signal says that it is over, and after a grace it isn't waited for. */
  #limited(run: Run, timeoutMs: number, body: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let forget = after(timeoutMs, () => {
        run.exceed()
        forget = after(this.#settings.timeoutGraceMs, () => {
          run.isOverdue = true
          reject(new TaskTimeout())
        })
      })
      const ended = new Promise((resolve) => resolve(body()))
      ended.then(resolve, reject).finally(() => forget())
    })
  }

  #failed(run: Run, envelope: Envelope, error: unknown): Settlement {
    const signal = signalOf(error)
    const reason = signal instanceof Bury ? signal.reason : run.isOverdue ? 'time limit' : ''
    const described = describe(error, reason)
    const wish = { afterMs: signal instanceof Retry ? signal.afterMs : null, isLast: signal instanceof Bury }
    const settlement = failed(run.lease, envelope, described, wish)
    const { id, attempt } = run.lease
    const next = settlement.script === 'retry' ? 'another follows' : 'no other follows'
    const shown = `${described.error}: ${described.message.slice(0, SHOWN)}`
    this.#settings.log.warn(`Attempt ${attempt} of ${id} (${envelope.name}) failed, ${next}: ${shown}`)
    return settlement
  }

  /** Give back what another worker may know, until nobody knew it for too long. */
  #unknown(lease: Lease, why: string, ttlMs = this.#settings.unknownTtlMs): Settlement {
    if ((lease.unknownMs ?? 0) >= ttlMs) {
      return buriedUnread(lease, describe(new UnknownTask(`${why}, nor was it elsewhere.`), 'unknown task'))
    }
    const delayMs = Math.min(UNKNOWN_STEP_MS * (lease.releases + 1), UNKNOWN_CAP_MS)
    this.#settings.log.warn(`${why}: ${lease.id} goes back for ${delayMs / 1000} s`)
    return release(lease, { delayMs, unknown: true })
  }
}
