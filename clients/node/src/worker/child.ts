/** The main loop: it claims as many leases as it can start, runs them, and settles what has ended. */

import type { Broker } from '../broker.js'
import { BrokerError, OutOfMemory, TaskqError } from '../errors.js'
import type { Claimed, Lease } from '../records.js'
import { release, type Settlement } from '../settlements.js'
import { Claims } from './claims.js'
import { Bell, now, turn } from './clock.js'
import type { Outage } from './outage.js'
import { Run } from './run.js'
import type { Settings } from './settings.js'
import type { Tasks } from './tasks.js'
import { Waiter } from './waiter.js'

/** Leases in one claim at most: while Redis and we are busy with many, what has ended waits to be settled. */
const LARGEST_CLAIM = 100
const PART = 'main loop'

/** What Redis must be told, and the run that it is about, if there is one. */
interface Parcel {
  settlement: Settlement
  run: Run | null
}

/** What happened since the loop last heard: it changes nothing while an answer of Redis is on its way. */
interface News {
  ended: Parcel[]
  /** Whether a wait is over, and the queue whose marker was popped, if one was. */
  woken: { queue: string | null } | null
}

export class Child {
  /** The leases in hand: those that run, and those that ended and aren't settled. */
  readonly held = new Set<Run>()
  readonly #settings: Settings
  readonly #broker: Broker
  readonly #tasks: Tasks
  readonly #outage: Outage
  readonly #claims: Claims
  readonly #waiter: Waiter
  readonly #bell = new Bell()
  readonly #outbox: Parcel[] = []
  #news: News = { ended: [], woken: null }
  #running = 0
  #isStopping = false
  /** Whether Redis is tried once more, also when it didn't answer just now. */
  #asksAgain = false
  /** The queue whose marker was popped and not followed by a claim yet. */
  #marker: string | null = null
  /** When Redis may be tried again. */
  #resumeAt = 0

  constructor(broker: Broker, settings: Settings, tasks: Tasks, outage: Outage) {
    this.#broker = broker
    this.#settings = settings
    this.#tasks = tasks
    this.#outage = outage
    this.#claims = new Claims(settings)
    this.#waiter = new Waiter(broker, outage, settings.log, (queue) => {
      this.#news.woken = { queue }
      this.#bell.ring()
    })
  }

  /** Serve until told to stop, or until nothing is left to do with `burst`; resolves with nothing in hand. */
  async run(): Promise<void> {
    for (;;) {
      this.#hear()
      this.#claims.lookAtClock()
      if (this.#claims.isStale) this.stop()
      if (this.#asksAgain || now() >= this.#resumeAt) await this.#talk()
      if (this.#isDone) return
      await this.#bell.wait(this.#patience())
      await turn()
    }
  }

  /** Claim no more, and end when all that runs has ended. */
  stop(): void {
    if (this.#isStopping) return
    this.#isStopping = this.#asksAgain = true
    this.#waiter.stop()
    this.#claims.leave()
    this.#bell.ring()
  }

  /** End what runs, as far as it heeds its signal, and give it back with its attempt. */
  async force(): Promise<void> {
    this.stop()
    const running = [...this.held].filter((run) => !run.hasEnded)
    for (const run of running) run.giveBack()
    // What ends at once may still say how.
    await turn()
    for (const run of running) this.#end(run, release(run.lease))
  }

  /** Give back what runs when the main loop can't any more. */
  async abandon(): Promise<void> {
    await this.force()
    this.#hear()
    await this.#broker.exchange(this.#outbox.map(({ settlement }) => settlement), null)
  }

  get #isDone(): boolean {
    if (!this.#isStopping || this.#running > 0 || this.#outbox.length > 0) return false
    if (!this.#claims.isUnderWay && this.#marker === null) return true
    // While Redis is away nobody waits for the answer to a claim: what it may have leased lapses.
    return this.#outage.lasts(PART) && !this.#asksAgain
  }

  /** Return the ms that the loop may wait for news. */
  #patience(): number {
    const moment = now()
    if (this.#asksAgain) return 0
    if (this.#resumeAt > moment) return this.#resumeAt - moment
    const isBusy = this.#outbox.length > 0 || this.#claims.isUnderWay || this.#marker !== null || this.#wanted > 0
    return isBusy ? 0 : Math.max(0, this.#claims.dueAt - moment)
  }

  /** How many leases to claim. */
  get #wanted(): number {
    if (this.#isStopping || !this.#claims.isHungry) return 0
    return Math.min(this.#freePlaces, LARGEST_CLAIM)
  }

  get #freePlaces(): number {
    return this.#settings.concurrency - this.#running
  }

  #hear(): void {
    const { ended, woken } = this.#news
    this.#news = { ended: [], woken: null }
    this.#running -= ended.length
    for (const parcel of ended) this.#outbox.push(parcel)
    if (ended.length > 0 && this.#settings.burst) this.#claims.isHungry = true
    if (woken === null) return
    this.#claims.isHungry = true
    this.#marker = woken.queue
  }

  /** Tell Redis what has ended and ask it for work, or wait until it answers again. */
  async #talk(): Promise<void> {
    this.#asksAgain = false
    try {
      await this.#exchange()
      if (this.#marker !== null) {
        // It was popped and no claim followed, so another must be woken.
        await this.#broker.arm(this.#marker)
        this.#marker = null
      }
    } catch (error) {
      if (!(error instanceof TaskqError)) throw error
      this.#resumeAt = now() + this.#outage.failed(PART, error)
      return
    }
    if (this.#outage.over(PART)) this.#claims.isHungry = true
    const hasIdleHands = !this.#isStopping && !this.#claims.isHungry && this.#freePlaces > 0
    if (hasIdleHands && !this.#waiter.waits) this.#waiter.ask(this.#settings.queues)
  }

  /** Settle all that has ended and claim as many as can be started, in one round trip. */
  async #exchange(): Promise<void> {
    const claim = this.#claims.request(this.#wanted)
    const parcels = [...this.#outbox]
    if (parcels.length === 0 && claim === null) return
    try {
      const { words, claimed } = await this.#broker.exchange(parcels.map(({ settlement }) => settlement), claim)
      parcels.forEach((parcel, index) => this.#settled(parcel, words[index]!))
      this.#outbox.length = 0
      if (claimed !== null) this.#take(claimed)
    } catch (error) {
      if (!(error instanceof BrokerError) || error instanceof OutOfMemory || parcels.length === 0) throw error
      await this.#settleSingly()
    }
  }

  #take(claimed: Claimed): void {
    this.#marker = null
    const leases = this.#claims.answered(claimed)
    if (this.#isStopping) {
      for (const lease of leases) this.#outbox.push({ settlement: release(lease), run: null })
      return
    }
    for (const lease of leases) this.#start(lease)
    if (this.#settings.burst && this.#running === 0) this.stop()
  }

  #start(lease: Lease): void {
    const run = new Run(lease)
    this.held.add(run)
    this.#running += 1
    void this.#tasks.perform(run).then((settlement) => this.#end(run, settlement))
  }

  /** Hear how a run ended; only the first time counts. */
  #end(run: Run, settlement: Settlement): void {
    if (run.hasEnded) return
    run.hasEnded = true
    this.#news.ended.push({ settlement, run })
    this.#bell.ring()
  }

  /** Settle one after the other, and leave alone the one that Redis refuses: its lease will lapse. */
  async #settleSingly(): Promise<void> {
    for (let parcel = this.#outbox[0]; parcel !== undefined; parcel = this.#outbox[0]) {
      this.#settled(parcel, await this.#wordFor(parcel.settlement))
      this.#outbox.shift()
    }
  }

  async #wordFor(settlement: Settlement): Promise<string> {
    try {
      return await this.#broker.settle(settlement)
    } catch (error) {
      if (!(error instanceof BrokerError) || error instanceof OutOfMemory) throw error
      this.#settings.log.error(`Redis refused the outcome of ${settlement.lease.id}:`, error)
      return 'REFUSED'
    }
  }

  #settled({ settlement, run }: Parcel, word: string): void {
    if (run !== null) this.held.delete(run)
    if (word !== 'LEASE_LOST' && word !== 'ORPHANED') return
    const { script, lease } = settlement
    this.#settings.log.warn(`The lease of ${lease.id} was lost, so its ${script} doesn't count`)
  }
}
