/** The queue in one namespace: one method a transition. All errors are those of `errors`. */
import { Connection, REPLY_MS, type Argument, type Reply } from './connection.js'
import { type Page, batches, enqueue } from './enqueueing.js'
import { TaskqError } from './errors.js'
import { checkChildId, checkNamespace, checkQueueName, checkWorkerName, isQueueName } from './names.js'
import { type Record, recordOf } from './reading.js'
import {
  type Claim, type Claimed, type Expired, type NewRecord, Lease, duration, groups, integer, text,
} from './records.js'
import { type Call, run } from './scripts.js'
import type { Holding, Settlement } from './settlements.js'

/** Records in one call of a script, and bytes of their logs. */
const BATCH_RECORDS = 1000
const BATCH_BYTES = 2 ** 20
/** Milliseconds that one wait may last. */
export const LONGEST_WAIT_MS = 5000

export interface BrokerOptions {
  /** Milliseconds to wait for a connection, and for a reply. */
  replyMs?: number
  /** Whether arguments are read so that they can be written again byte for byte. */
  exact?: boolean
}

/** What became of settlements, a word each, and the leases of the claim that was sent with them. */
export interface Exchanged {
  words: string[]
  claimed: Claimed | null
}

/** Talks to the queue in one namespace; it connects when first used. */
export class Broker {
  readonly namespace: string
  readonly #url: string
  readonly #replyMs: number
  readonly #exact: boolean
  readonly #connection: Connection
  readonly #key: string
  /** Connections of those who wait, and of those who waited and may do so again. */
  readonly #waiting = new Set<Connection>()
  readonly #idle: Connection[] = []
  #isClosed = false

  constructor(url: string, namespace = 'taskq', { replyMs = REPLY_MS, exact = false }: BrokerOptions = {}) {
    this.namespace = checkNamespace(namespace)
    this.#url = url
    this.#replyMs = replyMs
    this.#exact = exact
    this.#connection = new Connection(url, replyMs)
    this.#key = `{${namespace}}:queues`
  }

  /** Return a broker of the same queue on connections of its own, that waits so many ms at most for a reply. */
  sibling(replyMs: number): Broker {
    const options = { exact: this.#exact, replyMs: Math.min(replyMs, this.#replyMs) }
    return new Broker(this.#url, this.namespace, options)
  }

  /** Store records, each once however often it is sent; yield what became of each page, or its error. */
  enqueue(records: NewRecord[]): AsyncGenerator<Page> {
    return enqueue(this.#connection, this.#key, records)
  }

  /** Lease up to `claim.count` ready records; promotes what is due. */
  async claim(claim: Claim): Promise<Claimed> {
    return (await this.exchange([], claim)).claimed!
  }

  /**
   * Settle leases and claim new ones in one round trip.
   *
   * Words: DONE, ALREADY (settled so before), CANCELLED (it was asked to), LEASE_LOST, HELD (the lease that a reaper
   * took for lapsed isn't), ORPHANED (Redis lost its body).
   */
  async exchange(settlements: readonly Settlement[], claim: Claim | null = null): Promise<Exchanged> {
    const calls = settleCalls(settlements)
    const requests = calls.map(([call]) => call)
    if (claim) requests.push(claimCall(claim))
    if (requests.length === 0) return { words: [], claimed: null }
    const deadline = performance.now() + (claim?.leaseMs ?? 0)
    const replies = await run(this.#connection, this.#key, requests)
    const claimed = claim && this.#claimed(replies.pop() as Reply[], deadline)
    const words = new Array<string>(settlements.length)
    calls.forEach(([, positions], index) => {
      const said = replies[index] as Reply[]
      positions.forEach((position, at) => (words[position] = text(said[at])))
    })
    return { words, claimed }
  }

  /** Settle one lease; return the word for it. */
  async settle(settlement: Settlement): Promise<string> {
    return (await this.exchange([settlement])).words[0]!
  }

  #claimed(reply: Reply[], deadline: number): Claimed {
    if (reply.length === 1) return { leases: [], nextDueMs: null, stale: true }
    const [now, nextDueMs, ...rest] = reply
    const leases = groups(rest, 7).map((group) => new Lease(group, integer(now), deadline))
    return { leases, nextDueMs: duration(nextDueMs), stale: false }
  }

  /** Push leases further; return OK, CANCEL (held, but asked to stop) or LOST for each. */
  async renew(leases: readonly Holding[], leaseMs: number): Promise<string[]> {
    const words: string[] = []
    for (const page of batches(leases, () => 0, BATCH_RECORDS, 0)) {
      const held = page.flatMap(({ id, queue, token }) => [id, queue, token])
      const reply = await this.run('renew', [leaseMs, ...held], ({ length }) => length === page.length)
      words.push(...(reply as Reply[]).map(text))
    }
    return words
  }

  /** Read a page of lapsed leases `besides` some; the caller decides, then settles them as `lapsed`. */
  async expired(queues: readonly string[], limit = 100, besides: readonly string[] = []): Promise<Expired> {
    const names = queues.map(checkQueueName)
    const request = [limit, besides.length, ...besides, ...names]
    const reply = await this.run('expired', request, ({ length }) => length % 8 === 2)
    const [now, nextLapseMs, ...rest] = reply as Reply[]
    const leases = groups(rest, 8).map((group) => new Lease(group, integer(now), 0))
    return { leases, nextLapseMs: duration(nextLapseMs) }
  }

  /** Write a worker's presence, or take it away when there are no fields; return how many workers there are. */
  async heartbeat(worker: string, fields: { [name: string]: string | number }, ttlMs: number): Promise<number> {
    const presence = Object.entries(fields).flat()
    return integer(await this.run('heartbeat', [checkWorkerName(worker), ttlMs, ...presence]))
  }

  /** Return the names of all queues that were ever used, without what a stranger put there that can be none. */
  async queues(): Promise<string[]> {
    const [reply] = await this.#connection.send([['SMEMBERS', this.#key]])
    if (reply instanceof TaskqError) throw reply
    return (reply as Reply[]).map(text).filter(isQueueName).toSorted()
  }

  /** Return a record, the id that this one is an alias of, or null. */
  async read(id: string): Promise<Record | string | null> {
    const fits = ([found]: Reply[]) => Array.isArray(found) && found.length === 8
    const [found] = (await this.run('read', [id], fits)) as Reply[][]
    return recordOf(id, found!, this.#exact)
  }

  /** Wait for work; return the queue whose marker was popped, which obliges to claim or `arm`, or null. */
  async wait(queues: readonly string[], ms: number): Promise<string | null> {
    const markers = queues.map((queue) => this.#marker(queue))
    const seconds = Math.min(Math.max(ms, 10), LONGEST_WAIT_MS) / 1000
    if (this.#isClosed) return null
    const connection = this.#idle.pop() ?? new Connection(this.#url, this.#replyMs)
    this.#waiting.add(connection)
    try {
      const [popped] = await connection.send([['BZPOPMIN', ...markers, String(seconds)]], seconds * 1000)
      if (popped instanceof TaskqError) throw popped
      return popped ? text((popped as Reply[])[0]).slice(`{${this.namespace}}:queue:`.length, -':wake'.length) : null
    } catch (error) {
      if (!this.#waiting.has(connection)) return null
      throw error
    } finally {
      if (this.#waiting.delete(connection)) this.#idle.push(connection)
    }
  }

  /**
   * End all waits that are under way; they return null.
   *
   * A marker that was popped for one at this moment is lost, as when a worker is killed: others look after
   * `LONGEST_WAIT_MS` at the latest.
   */
  stopWaiting(): void {
    for (const connection of this.#waiting) {
      this.#waiting.delete(connection)
      connection.drop('The wait was ended.')
    }
  }

  /** Put the marker back that `wait` popped, so that another worker claims. */
  async arm(queue: string): Promise<void> {
    const [reply] = await this.#connection.send([['ZADD', this.#marker(queue), 0, '1']])
    if (reply instanceof TaskqError) throw reply
  }

  /** Throw when Redis can't be used now. */
  async ping(): Promise<void> {
    const [reply] = await this.#connection.send([['PING']])
    if (reply instanceof TaskqError) throw reply
  }

  /** Run one script and return its reply, a list that `fits` takes if there is one. */
  async run(script: string, args: readonly Argument[], fits?: Call['fits']): Promise<Reply> {
    return (await run(this.#connection, this.#key, [{ script, arguments: args, fits }]))[0]!
  }

  /** End what waits, let what was sent be answered, and close. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.stopWaiting()
    this.#idle.forEach((connection) => connection.drop('The broker was closed.'))
    await this.#connection.close()
  }

  #marker(queue: string): string {
    return `{${this.namespace}}:queue:${checkQueueName(queue)}:wake`
  }
}

function claimCall({ child, nonce, count, leaseMs, queues }: Claim): Call {
  const names = queues.map(checkQueueName)
  const fits = (reply: Reply[]) => reply.length % 7 === 2 || (reply.length === 1 && text(reply[0]) === 'STALE')
  return { script: 'claim', arguments: [checkChildId(child), nonce, count, leaseMs, ...names], fits }
}

/** Return one call for each kind of settlement (and 1 MiB), with the positions of what it settles. */
function settleCalls(settlements: readonly Settlement[]): [Call, number[]][] {
  const kinds = new Map<string, [number, Settlement][]>()
  settlements.forEach((settlement, position) => {
    const kind = kinds.get(settlement.script)
    if (kind) kind.push([position, settlement])
    else kinds.set(settlement.script, [[position, settlement]])
  })
  return [...kinds].flatMap(([script, ones]) =>
    [...batches(ones, ([, settlement]) => settlement.bytes, BATCH_RECORDS, BATCH_BYTES)].map(
      (batch): [Call, number[]] => [
        {
          script,
          arguments: batch.flatMap(([, settlement]) => settlement.arguments),
          fits: ({ length }) => length === batch.length,
        },
        batch.map(([position]) => position),
      ],
    ),
  )
}
