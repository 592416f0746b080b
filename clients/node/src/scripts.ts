/** The Lua scripts of the protocol: found, composed, and run without ever being sent twice behind our back. */
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'

import type { Argument, Connection, Reply, Request } from './connection.js'
import { BrokerUnavailable, TaskqError } from './errors.js'
import { codeOf } from './failures.js'

const FOLDER = new URL('../lua/', import.meta.url)
const INCLUDE = /^-- @include (\w+)\n/gm

/** A composed script and the name that Redis gives it. */
export interface Script {
  name: string
  text: string
  sha: string
}

/** A script to be run with these ARGV. */
export interface Call {
  script: string
  arguments: readonly Argument[]
  /** Tells whether a list can be what it replies; without it the reply is none. */
  fits?: (reply: Reply[]) => boolean
}

const loaded = new Map<string, Script>()

/** Return a script with each piece that it includes, once, above the text that needs it. */
export function load(name: string): Script {
  let script = loaded.get(name)
  if (!script) {
    const text = composed(name, new Set())
    script = { name, text, sha: createHash('sha1').update(text).digest('hex') }
    loaded.set(name, script)
  }
  return script
}

function composed(piece: string, included: Set<string>): string {
  included.add(piece)
  const text = readFileSync(new URL(`${piece}.lua`, FOLDER), 'utf8')
  return text.replace(INCLUDE, (_, other: string) => (included.has(other) ? '' : composed(other, included)))
}

/** Return the name of every script, without the shared pieces. */
export function names(): string[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.lua') && !file.startsWith('_'))
    .map((file) => file.slice(0, -'.lua'.length))
    .toSorted()
}

/**
 * Run scripts in one round trip and return their replies; throw the first error.
 *
 * A script that the server doesn't know (a restart, a failover, SCRIPT FLUSH) has not run, so that one alone is sent
 * again with its text.
 */
export async function run(connection: Connection, key: string, calls: readonly Call[]): Promise<Reply[]> {
  const replies = await connection.send(calls.map((call) => request(key, call, 'EVALSHA')))
  const unknown = calls.map((_, index) => index).filter((index) => isUnknown(replies[index]))
  if (unknown.length > 0) {
    const again = await connection.send(unknown.map((index) => request(key, calls[index]!, 'EVAL')))
    unknown.forEach((index, position) => (replies[index] = again[position]!))
  }
  return replies.map((reply, index) => {
    if (reply instanceof TaskqError) throw reply
    const { fits } = calls[index]!
    if (!fits || (Array.isArray(reply) && fits(reply))) return reply
    // It may be another's, and so would be those that follow.
    const why = 'what came is no reply to what was sent'
    connection.drop(why)
    throw new BrokerUnavailable(why, true)
  })
}

function isUnknown(reply: Reply | TaskqError | undefined): boolean {
  return reply instanceof TaskqError && codeOf(reply.message) === 'NOSCRIPT'
}

function request(key: string, call: Call, command: 'EVALSHA' | 'EVAL'): Request {
  const script = load(call.script)
  return [command, command === 'EVALSHA' ? script.sha : script.text, 1, key, ...call.arguments]
}
