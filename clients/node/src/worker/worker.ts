/** A worker: one process that runs the tasks of some queues until it is told to stop. */

import type { Broker } from '../broker.js'
import { BrokerUnavailable, OutOfMemory } from '../errors.js'
import { checkNames } from '../options.js'
import { Taskq } from '../taskq.js'
import { Child } from './child.js'
import { after, Bell } from './clock.js'
import { Duty } from './duty.js'
import { Outage } from './outage.js'
import { type Phase, Presence } from './presence.js'
import { Reaper } from './reaper.js'
import { Renewals } from './renewals.js'
import { readSettings, type Settings, type WorkerOptions } from './settings.js'
import { onSignals } from './signals.js'
import { Tasks } from './tasks.js'

/** Ms to wait for Redis to reply, at least. */
const SHORTEST_PATIENCE_MS = 500
/** Ms that giving back leases may take. */
const RELEASE_PATIENCE_MS = 5_000
/** Ms that Redis may take to hear a worker's last words. */
const FAREWELL_PATIENCE_MS = 250
const PART = 'start'

/** Runs tasks, up to `concurrency` at once, in this process. */
export class Worker {
  readonly #settings: Settings
  readonly #broker: Broker
  readonly #outage: Outage
  readonly #child: Child
  readonly #renewals: Renewals
  readonly #presence: Presence
  readonly #duties: readonly Duty[]
  readonly #bell = new Bell()
  #phase: Phase = 'starting'
  #hasRun = false
  #hasEnded = false
  #forget = () => {}
  /** Ends `run()` with something in hand. */
  #giveUp = () => {}

  /** Throws TypeError, RangeError or `InvalidName` for options that can't be. */
  constructor(taskq: Taskq, options: WorkerOptions) {
    if (!(taskq instanceof Taskq)) throw new TypeError('Worker takes a Taskq, and then its options.')
    const settings = readSettings(options)
    const { name, leaseMs, log } = settings
    // A connection that fell silent is given up while the lease holds.
    const broker = taskq.broker.sibling(Math.max(leaseMs / 3, SHORTEST_PATIENCE_MS))
    this.#settings = settings
    this.#broker = broker
    this.#outage = new Outage(log, `Worker ${name}`)
    this.#child = new Child(broker, settings, new Tasks(settings, taskq), this.#outage)
    this.#renewals = new Renewals(broker, settings, this.#child.held)
    this.#presence = new Presence(broker, settings, () => this.#condition())
    const reaper = new Reaper(broker, settings)
    this.#duties = [
      new Duty('renewal', () => this.#renewals.work(), this.#outage, log, leaseMs / 6),
      new Duty('presence', () => this.#presence.work(), this.#outage, log),
      new Duty('reaper', () => reaper.work(), this.#outage, log),
    ]
  }

  /** The worker's name; what it claims, it claims as `<name>.<8 random characters>`. */
  get name(): string {
    return this.#settings.name
  }

  /**
   * Work until told to stop, or until nothing is left to do with `burst`; resolves to whether it had to give tasks back
   * that still ran. Rejects when Redis refuses us at the start, or when the worker itself fails.
   *
   * With `signals`, the first SIGTERM or SIGINT stops it and the second stops it now.
   */
  async run(given: { signals?: boolean } = {}): Promise<{ forced: boolean }> {
    checkNames('run()', given, ['signals'])
    if (this.#hasRun) throw new Error('A worker runs once; make another.')
    this.#hasRun = true
    const ignoreSignals = given.signals ? onSignals(() => this.#obey()) : () => {}
    try {
      const givenUp = new Promise<void>((resolve) => (this.#giveUp = resolve))
      await Promise.race([this.#work(), givenUp])
      return { forced: this.#phase === 'releasing' }
    } finally {
      await this.#leave()
      ignoreSignals()
    }
  }

  /**
   * Claim no more, and end when what runs has ended or after `shutdownMs`; `now` waits for nothing.
   *
   * What still runs then is told by its signal, and goes back to the queue with its attempt.
   */
  stop(given: { now?: boolean } = {}): void {
    checkNames('stop()', given, ['now'])
    if (this.#hasEnded) return
    if (given.now) this.#force('It was told to stop now')
    if (this.#phase !== 'starting' && this.#phase !== 'serving') return
    this.#enter('draining')
    this.#settings.log.info(`Worker ${this.name} is stopping: it claims no more`)
    this.#forget = after(this.#settings.shutdownMs, () => this.#force('The grace is over'))
    this.#child.stop()
    this.#bell.ring()
  }

  #obey(): void {
    if (this.#phase !== 'draining') this.stop()
    else if (!this.#hasEnded) this.#force('A second signal came')
  }

  #force(why: string): void {
    if (this.#phase === 'releasing') return
    this.#enter('releasing')
    this.#settings.log.warn(`${why}: ending what runs and giving it back`)
    this.#forget()
    this.#forget = after(RELEASE_PATIENCE_MS, () => this.#giveUp())
    void this.#child.force()
    this.#bell.ring()
  }

  #enter(phase: Phase): void {
    this.#phase = phase
    this.#duties.find(({ name }) => name === 'presence')?.poke()
  }

  async #work(): Promise<void> {
    if (!(await this.#isGreeted())) return
    const { queues, concurrency, log } = this.#settings
    log.info(`Worker ${this.name} serves queues: ${queues.join(', ')}. Tasks at once: ${concurrency}`)
    this.#enter('serving')
    for (const duty of this.#duties) void duty.run()
    try {
      await this.#child.run()
    } catch (error) {
      log.error(`Worker ${this.name} failed, and gives back what runs:`, error)
      await this.#child.abandon().catch(() => {})
      throw error
    }
  }

  /** Wait until Redis answers; false when it was told to stop before that. */
  async #isGreeted(): Promise<boolean> {
    while (this.#phase === 'starting') {
      try {
        await this.#broker.ping()
        this.#outage.over(PART)
        return this.#phase === 'starting'
      } catch (error) {
        if (!(error instanceof BrokerUnavailable || error instanceof OutOfMemory)) throw error
        await this.#bell.wait(this.#outage.failed(PART, error))
      }
    }
    return false
  }

  async #leave(): Promise<void> {
    this.#hasEnded = true
    this.#forget()
    this.#renewals.stop()
    for (const duty of this.#duties) duty.stop()
    const farewell = this.#phase === 'starting' ? Promise.resolve() : this.#presence.leave()
    // Whatever becomes of it, no connection stays that would keep the process.
    await within(FAREWELL_PATIENCE_MS, farewell.finally(() => this.#broker.close()))
    this.#settings.log.info(`Worker ${this.name} ended`)
  }

  #condition() {
    const failures = this.#duties.reduce((sum, duty) => sum + duty.failures, 0)
    return { phase: this.#phase, running: this.#child.held.size, failures }
  }
}

/** Wait for something, so many ms at most, and however it ends. */
async function within(ms: number, something: Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => {
    const forget = after(ms, resolve)
    something.catch(() => {}).finally(() => {
      forget()
      resolve()
    })
  })
}
