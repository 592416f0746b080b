// Workers of a test file: with short leases and a log that is kept, and ended with each test.
import { after, afterEach, before, beforeEach } from 'node:test'

import { Taskq, Worker } from '../dist/index.js'
import { load, names } from '../dist/scripts.js'
import { Proxy as Line, Server, until } from './server.js'

/** A policy that waits hardly, so that a test needn't. */
export const SOON = { base: 0.01, factor: 1, cap: 0.01, jitter: 'none' }

/** A log that keeps its lines. */
export class Lines {
  lines = []
  info = (...parts) => this.lines.push(parts.join(' '))
  warn = this.info
  error = this.info

  /** Return the lines in which a text stands. */
  with(text) {
    return this.lines.filter((line) => line.includes(text))
  }
}

/** Let the first reply to a script get lost that passes a proxy, and the connection with it. */
export function loseReply(proxy, script) {
  const { sha } = load(script)
  let lostAt = null
  Object.defineProperty(proxy, 'replies', {
    get() {
      if (lostAt === null && proxy.requests.includes(sha)) lostAt = proxy.connections
      return proxy.connections === lostAt ? 'cut' : 'pass'
    },
  })
}

/** Something that a test waits for, and lets happen. */
export class Gate {
  #open
  passed = new Promise((resolve) => (this.#open = resolve))
  open = (value) => this.#open(value)
}

export class Workers {
  #started = []
  #taskqs = []

  constructor(server) {
    this.server = server
    this.taskq = this.connect()
  }

  connect(url = this.server.url, options = {}) {
    const taskq = new Taskq({ url, ...options })
    this.#taskqs.push(taskq)
    return taskq
  }

  /** Empty the server; it knows all scripts afterwards, so that each is sent once. */
  async flush() {
    await this.server.flush()
    for (const name of names()) await this.server.redis.script('LOAD', load(name).text)
  }

  /** Claim a record as a worker does that is gone before it begins. */
  async claimAsGone(leaseMs = 250, queue = 'default') {
    const child = `gone.${Math.random().toString(36).slice(2, 10).padEnd(8, 'x')}`
    const { leases } = await this.taskq.broker.claim({ child, nonce: 1, count: 1, leaseMs, queues: [queue] })
    return leases[0]
  }

  /** Start a worker; it has `done`, the promise of its run, and `log`. */
  start(tasks, { taskq = this.taskq, signals = false, ...options } = {}) {
    const log = new Lines()
    const worker = new Worker(taskq, { queues: ['default'], leaseMs: 1_000, tasks, log, ...options })
    worker.log = log
    worker.done = worker.run({ signals })
    worker.done.catch(() => {})
    this.#started.push(worker)
    return worker
  }

  /** Run what is there to be run. */
  drain(tasks, options = {}) {
    return this.start(tasks, { burst: true, ...options }).done
  }

  /** Wait until a record is in a state; return its result. */
  async ended(id, state = 'succeeded', withinMs = 30_000) {
    let result
    await until(async () => (result = await this.taskq.result(id))?.state === state, `${id} is ${state}`, withinMs)
    return result
  }

  /** End the workers of a test. */
  async stop() {
    for (const worker of this.#started) worker.stop({ now: true })
    await Promise.allSettled(this.#started.map((worker) => worker.done))
    this.#started = []
  }

  async close() {
    await this.stop()
    await Promise.all(this.#taskqs.map((taskq) => taskq.close()))
  }
}

/** What the tests of a file work on, once it has called `setUp`. */
export let server
export let workers

/** Start a server before the tests of a file; before each it is empty, and after each no worker is left. */
export function setUp(startServer = Server.start) {
  before(async () => {
    server = await startServer()
    workers = new Workers(server)
  })
  beforeEach(() => workers.flush())
  afterEach(() => workers.stop())
  after(async () => {
    await workers.close()
    await server.stop()
  })
}

/** The proxy before the server, in a file that has called `setUpLine`. */
export let line

/** Put a proxy before the server of `setUp`, a new one for each test. */
export function setUpLine() {
  beforeEach(async () => (line = await Line.start(server.port)))
  afterEach(() => line.stop())
}

/** Return a queue that reaches the server through the proxy. */
export const through = () => workers.connect(line.url)

export const enqueue = (...task) => workers.taskq.enqueue(...task)
export const run = (id) => server.redis.hgetall(`{taskq}:run:${id}`)
export const state = async (id) => (await workers.taskq.result(id)).state
/** Whether a client waits in BZPOPMIN. */
export const isBlocked = async () => / flags=b /.test(await server.redis.client('LIST'))

/** Return a queue for a worker between which and Redis something stands. */
export function meddled(meddle) {
  const taskq = workers.connect()
  const broker = taskq.broker.sibling(5_000)
  const exchange = broker.exchange.bind(broker)
  broker.exchange = async (settlements, claim) => meddle(() => exchange(settlements, claim), settlements, claim)
  taskq.broker.sibling = () => broker
  return taskq
}

/** Return a task that shows its context, and runs until its signal is aborted, which it heeds. */
export function heeding() {
  const begun = new Gate()
  const task = (args, kwargs, context) => {
    begun.open(context)
    return new Promise((resolve, reject) => {
      context.signal.addEventListener('abort', () => reject(context.signal.reason))
    })
  }
  return { begun: begun.passed, task }
}
