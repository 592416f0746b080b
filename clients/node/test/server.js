// A Redis of our own for the tests of one file: started when first asked for, emptied between tests, ended by its pid.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

import { Redis } from 'ioredis'

const START_MS = 10_000
const PROGRAMS = ['redis-server', 'valkey-server']

/** Return a free port of 127.0.0.1. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Wait until a condition holds; fail after a bounded time. */
export async function until(condition, what = condition.toString(), withinMs = 30_000) {
  const end = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await pause(5)
  }
}

/** A server, and a plain client of ours to look into it. */
export class Server {
  #process = null
  #folder = mkdtempSync(join(tmpdir(), 'taskq-node-'))
  #options = []

  /** Start a server, or take the one that TASKQ_REDIS_URL names. */
  static async start() {
    if (!process.env.TASKQ_REDIS_URL) return Server.own()
    const server = new Server()
    server.url = process.env.TASKQ_REDIS_URL
    return server.#looked()
  }

  /** Start a server that the test may end, with more words on its command line. */
  static async own(...options) {
    const server = new Server()
    server.#options = options
    server.port = await freePort()
    server.url = `redis://127.0.0.1:${server.port}/0`
    await server.up()
    return server.#looked()
  }

  #looked() {
    this.redis = new Redis(this.url, { password: passwordOf(this.#options), retryStrategy: () => 50 })
    this.redis.on('error', () => {})
    return this
  }

  get pid() {
    return this.#process?.pid
  }

  /** Start the process, again after `down`, with the same port and data. */
  async up() {
    for (const program of PROGRAMS) {
      const place = ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.#folder]
      const nothingKept = ['--save', '', '--appendonly', 'no']
      this.#process = spawn(program, [...place, ...nothingKept, ...this.#options], { stdio: 'ignore' })
      if (await once(this.#process, 'spawn').catch(() => null)) break
    }
    if (this.pid === undefined) throw new Error(`None of ${PROGRAMS.join(', ')} could be started.`)
    await until(() => answers(this.port), 'the server answers', START_MS)
  }

  /** End the process. */
  async down(signal = 'SIGTERM') {
    if (this.#process === null) return
    const ended = this.#process.exitCode === null ? once(this.#process, 'exit') : null
    process.kill(this.pid, signal)
    await ended
    this.#process = null
  }

  async stop() {
    this.redis.disconnect()
    await this.down()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  flush() {
    return this.redis.flushdb()
  }
}

function passwordOf(options) {
  const at = options.indexOf('--requirepass')
  return at < 0 ? undefined : options[at + 1]
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1')
    socket.once('error', () => resolve(false))
    socket.once('data', (bytes) => {
      socket.destroy()
      resolve(!bytes.toString().startsWith('-LOADING'))
    })
    socket.write('PING\r\n')
  })
}

/** Stands between a client and a server, and cuts or holds up what passes. */
export class Proxy {
  #server
  #sockets = new Set()
  /**
   * What to do with the bytes of a reply: 'pass', 'hold' (they never come), 'cut' (the connection ends instead) or
   * 'cut once', after which others pass.
   */
  replies = 'pass'
  connections = 0
  /** All that was sent through it. */
  requests = ''

  static async start(target) {
    const proxy = new Proxy()
    proxy.#server = createServer((client) => proxy.#serve(client, target)).listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    proxy.url = `redis://127.0.0.1:${proxy.#server.address().port}/0`
    return proxy
  }

  #serve(client, target) {
    this.connections += 1
    const server = createConnection(target, '127.0.0.1')
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => [client, server].forEach((one) => this.#sockets.delete(one) && one.destroy()))
    }
    client.on('data', (bytes) => {
      this.requests += bytes.toString('latin1')
      server.write(bytes)
    })
    server.on('data', (bytes) => {
      const { replies } = this
      if (replies === 'cut once') this.replies = 'pass'
      if (replies === 'pass') client.write(bytes)
      else if (replies !== 'hold') client.destroy()
    })
  }

  async stop() {
    this.#server.close()
    this.#sockets.forEach((socket) => socket.destroy())
    await once(this.#server, 'close')
  }
}
