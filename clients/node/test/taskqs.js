// Queues of a test file, on a server of its own, and proxies before it; each is closed after its test.
import { after, afterEach, before, beforeEach } from 'node:test'

import { Taskq } from '../dist/index.js'
import { Proxy, Server } from './server.js'

/** What the tests of a file work on, once it has called `setUp`. */
export let server
export let taskq

const opened = []

/** Start a server before the tests of a file, which is empty before each. */
export function setUp() {
  before(async () => (server = await Server.own()))
  beforeEach(async () => {
    await server.flush()
    taskq = connect()
  })
  afterEach(async () => {
    for (const one of opened.splice(0)) await (one instanceof Taskq ? one.close() : one.stop())
  })
  after(async () => server.stop())
}

export function connect(options = {}) {
  opened.unshift(new Taskq({ url: server.url, namespace: 'shop', ...options }))
  return opened[0]
}

/** Return a proxy, and a queue that reaches the server through it. */
export async function proxied(replies = 'pass') {
  const proxy = await Proxy.start(server.port)
  opened.push(proxy)
  proxy.replies = replies
  return [proxy, connect({ url: proxy.url, replyMs: 300 })]
}

export const isEmpty = async () => (await server.redis.dbsize()) === 0

let nonce = 0
export async function claimed(queues = ['default'], leaseMs = 30_000) {
  nonce += 1
  return (await taskq.broker.claim({ child: 'w.12345678', nonce, count: 100, leaseMs, queues })).leases
}
