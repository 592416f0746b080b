/**
 * How we connect: bounded waits, and nothing is ever sent twice, or kept to be sent later.
 *
 * ioredis keeps commands while it is away and sends those that weren't answered again, when it is back. Here one of
 * its clients stands for one connection: it opens once, sends only while that is open, and when that ends so does it.
 */
import { isIP } from 'node:net'

import { Command, Redis, ReplyError } from 'ioredis'

import { BrokerUnavailable, type TaskqError } from './errors.js'
import { isDemotion, refusal, textOf } from './failures.js'
import { type Address, parseUrl } from './urls.js'

export type Argument = string | number | Buffer
export type Reply = number | Buffer | null | Reply[]
/** A command's name and its arguments. */
export type Request = readonly [string, ...Argument[]]

/** Milliseconds to wait for a connection, and for the reply to a command. */
export const REPLY_MS = 5000
/** Milliseconds in which what came while our own loop was held up can still be read. */
const GRACE_MS = 100

/** One connection to a server, opened when it is first needed and anew after it has ended; callers share it. */
export class Connection {
  readonly #address: Address
  readonly #replyMs: number
  #line: Line | null = null
  #isClosed = false
  readonly #underway = new Set<Promise<unknown>>()

  /** Throws `ConfigurationError` when the URL can't be read; connects to nothing. */
  constructor(url: string, replyMs: number = REPLY_MS) {
    this.#address = parseUrl(url)
    this.#replyMs = replyMs
  }

  /**
   * Send commands in one write; return each one's reply, or the error that Redis answered with.
   *
   * Throws `BrokerUnavailable` when no reply came within the time for it and `moreMs`; the connection has ended then.
   */
  send(requests: readonly Request[], moreMs = 0): Promise<(Reply | TaskqError)[]> {
    const sending = this.#send(requests, moreMs).finally(() => this.#underway.delete(sending))
    this.#underway.add(sending)
    return sending
  }

  async #send(requests: readonly Request[], moreMs: number): Promise<(Reply | TaskqError)[]> {
    if (this.#isClosed) throw new BrokerUnavailable('The connection was closed by its owner.', false)
    if (!this.#line || this.#line.isOver) this.#line = new Line(this.#address, this.#replyMs)
    const line = this.#line
    await line.opened
    const replies = await line.send(requests, this.#replyMs + moreMs)
    return replies.map((reply) => {
      if (!(reply instanceof Error)) return reply
      if (isDemotion(reply.message)) this.#retire(line)
      return refusal(reply.message)
    })
  }

  /** Send nothing more over a connection, and end it with its last reply. */
  #retire(line: Line): void {
    if (this.#line === line) this.#line = null
    line.retire()
  }

  /** End what is open at once; what waits for a reply fails with `why`. */
  drop(why: string): void {
    this.#line?.end(why)
    this.#line = null
  }

  /** Wait for the replies that are due, and close. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled(this.#underway)
    this.drop('The connection was closed by its owner.')
  }
}

/**
 * Call back after so long, and a little longer: while a task holds our loop up, time passes and replies lie unread.
 *
 * Returns what calls it off.
 */
function giveUpAfter(ms: number, giveUp: () => void): () => void {
  let timer = setTimeout(() => (timer = setTimeout(giveUp, GRACE_MS)), ms)
  return () => clearTimeout(timer)
}

/** A client of ioredis for as long as its first connection lasts. */
class Line {
  /** Settles when commands can be sent, or never could be. */
  readonly opened: Promise<void>
  readonly #redis: Redis
  readonly #address: Address
  #failure: string | null = null
  #unanswered = 0
  #isRetired = false

  constructor(address: Address, replyMs: number) {
    this.#address = address
    this.#redis = new Redis({
      ...(address.path ? { path: address.path } : { host: address.host, port: address.port }),
      ...(address.tls ? { tls: { servername: isIP(address.host) ? '' : address.host, ...address.tls } } : {}),
      lazyConnect: true,
      protocol: 2,
      connectTimeout: 0, // We watch over all of it.
      retryStrategy: () => null,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      // It would ask again for as long as the server loads, and INFO needs a right that clients mostly don't have.
      enableReadyCheck: false,
      disableClientInfo: true,
    })
    this.#redis.on('error', (error) => this.end(textOf(error)))
    this.opened = this.#open(replyMs)
  }

  /** Whether nothing can be sent any more. */
  get isOver(): boolean {
    return this.#failure !== null || this.#redis.status === 'end' || this.#redis.stream?.writable === false
  }

  async #open(replyMs: number): Promise<void> {
    const forget = giveUpAfter(replyMs, () => this.end(`no connection within ${replyMs} ms`))
    try {
      await this.#redis.connect()
      await this.#greet()
    } catch (error) {
      this.end(textOf(error))
      if (error instanceof ReplyError) throw this.#refusedGreeting(textOf(error))
      throw new BrokerUnavailable(this.#failure!, false)
    } finally {
      forget()
    }
  }

  /** Log in, and see that it serves: what is sent later is not lost on a server that loads or turns us away. */
  async #greet(): Promise<void> {
    const { username, password, database } = this.#address
    const greeting: Request[] = [['PING']]
    if (database) greeting.unshift(['SELECT', database])
    if (username || password) greeting.unshift(username ? ['AUTH', username, password] : ['AUTH', password])
    for (const settled of await Promise.allSettled(this.#write(greeting))) {
      if (settled.status === 'rejected') throw settled.reason
    }
  }

  #refusedGreeting(said: string): TaskqError {
    const { password } = this.#address
    // A server without AUTH repeats what it was given, cut and in its own spelling.
    const safe = said.replace(/,? with args beginning with:[^]*/, '')
    return refusal(password ? safe.replaceAll(password, '***') : safe)
  }

  /** Send commands, or throw `BrokerUnavailable`; a reply that doesn't come ends the connection. */
  async send(requests: readonly Request[], withinMs: number): Promise<(Reply | Error)[]> {
    if (this.isOver) throw new BrokerUnavailable(this.#failure ?? 'Connection closed by server', false)
    const forget = giveUpAfter(withinMs, () => this.end(`no reply within ${withinMs} ms`))
    this.#unanswered += 1
    const settled = await Promise.allSettled(this.#write(requests))
    this.#unanswered -= 1
    forget()
    if (this.#isRetired && this.#unanswered === 0) this.end('')
    return settled.map((one) => {
      if (one.status === 'fulfilled') return one.value
      if (one.reason instanceof ReplyError) return one.reason
      throw new BrokerUnavailable(this.#failure ?? textOf(one.reason), true)
    })
  }

  #write(requests: readonly Request[]): Promise<Reply>[] {
    const { stream } = this.#redis
    // One write, so that the server reads once.
    stream.cork()
    const replies = requests.map(([name, ...rest]) => this.#redis.sendCommand(new Command(name, rest)))
    stream.uncork()
    return replies as Promise<Reply>[]
  }

  /** End once all that was sent is answered. */
  retire(): void {
    this.#isRetired = true
    if (this.#unanswered === 0) this.end('')
  }

  /** End now; a late reply would be taken for that of the next command. */
  end(why: string): void {
    this.#failure ??= why
    if (this.#redis.stream) this.#redis.stream.destroy()
    else this.#redis.disconnect()
  }
}
