/** What one worker was asked to do. */

import { randomInt } from 'node:crypto'
import { hostname } from 'node:os'

import { LONGEST_MS } from '../envelope.js'
import { isRecord, kindOf } from '../json/repr.js'
import { checkQueueName, checkWorkerName } from '../names.js'
import { checkNames, flag, shown } from '../options.js'
import type { Handler } from './context.js'

/** Where a worker writes its lines; `console` is one. */
export interface Log {
  info(...parts: unknown[]): void
  warn(...parts: unknown[]): void
  error(...parts: unknown[]): void
}

export interface WorkerOptions {
  /** Queues to serve, in strict order. */
  queues: readonly string[]
  /** The functions that run tasks, by the names of these. */
  tasks: Readonly<Record<string, Handler>>
  /** Tasks at once; 10 by default. */
  concurrency?: number
  /** How long a claim holds, from 250 to a day; it is renewed every third of this. 30,000 by default. */
  leaseMs?: number
  /** Grace for what runs after the first signal; 25,000 by default. */
  shutdownMs?: number
  /** How long a task stays in the queue whose name no worker knows; a day by default. */
  unknownTtlMs?: number
  /** Grace for a task beyond its time limit, until its place is given to another; 5,000 by default. */
  timeoutGraceMs?: number
  /** The worker's name; `<host>-<pid>` by default. */
  name?: string
  /** Whether to end when nothing is left to do. */
  burst?: boolean
  /** `console` by default. */
  log?: Log
}

export type Settings = Required<Omit<WorkerOptions, 'tasks'>> & {
  tasks: ReadonlyMap<string, Handler>
  /** `<worker>.<8 random characters>`: the name of this process, under which it claims. */
  child: string
}

/** Ms. A shorter lease ends while its renewal, sent every third of it, is on its way. */
const SHORTEST_LEASE_MS = 250
/** Ms. The scripts take a lease that ends later than this from now for lapsed. */
const LONGEST_LEASE_MS = 86_400_000
/** Tasks at once; more is a slip of the hand. */
const MOST_TASKS = 100_000
/** Bytes of a worker's name; a child's id has nine more, and Django's columns for worker ids hold 64. */
const MOST_NAME_BYTES = 55
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789'

const DEFAULTS = {
  concurrency: 10,
  leaseMs: 30_000,
  shutdownMs: 25_000,
  unknownTtlMs: 86_400_000,
  timeoutGraceMs: 5_000,
  burst: false,
  log: console as Log,
}
const KNOWN = ['queues', 'tasks', 'name', ...Object.keys(DEFAULTS)]

/** Return the settings that options stand for; throws TypeError, RangeError or `InvalidName` for what can't be. */
export function readSettings(options: WorkerOptions): Settings {
  checkNames('Worker', options, KNOWN)
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  if (given.name === undefined) given.name = defaultName()
  const settings = { ...DEFAULTS, ...given } as Required<WorkerOptions>
  checkNumber('concurrency', settings.concurrency, 1, MOST_TASKS)
  checkNumber('leaseMs', settings.leaseMs, SHORTEST_LEASE_MS, LONGEST_LEASE_MS)
  for (const name of ['shutdownMs', 'unknownTtlMs', 'timeoutGraceMs'] as const) {
    checkNumber(name, settings[name], 0, LONGEST_MS)
  }
  flag('burst', settings.burst)
  const name = checkName(settings.name)
  const child = `${name}.${Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')}`
  const { queues, tasks, log } = settings
  return { ...settings, queues: queuesOf(queues), tasks: tasksOf(tasks), log: logOf(log), child }
}

function checkNumber(name: string, value: unknown, least: number, most: number): void {
  if (!Number.isInteger(value) || (value as number) < least || (value as number) > most) {
    throw new RangeError(`${name} must be a whole number from ${least} to ${most}, not ${shown(value)}.`)
  }
}

function checkName(name: string): string {
  checkWorkerName(name)
  if (Buffer.byteLength(name) > MOST_NAME_BYTES) {
    throw new RangeError(`A worker's name has at most ${MOST_NAME_BYTES} bytes, and '${name}' has more.`)
  }
  return name
}

function queuesOf(queues: unknown): readonly string[] {
  if (!Array.isArray(queues) || queues.length === 0) throw new TypeError('queues must be an array of queue names.')
  return [...new Set(queues.map((queue) => checkQueueName(queue)))]
}

/** Return the tasks by name, of which only own properties are any: else `constructor` would be a task. */
function tasksOf(tasks: unknown): ReadonlyMap<string, Handler> {
  // Of a Map or a class's instance nothing would be found, and all that is claimed would go back.
  if (!isRecord(tasks) || tasks instanceof Map) {
    throw new TypeError(`tasks must be a plain object of functions, not ${kindOf(tasks)}.`)
  }
  const wrong = Object.entries(tasks).find(([, task]) => typeof task !== 'function')
  if (wrong !== undefined) throw new TypeError(`The task '${wrong[0]}' must be a function.`)
  return new Map(Object.entries(tasks))
}

/** Return a log that throws nothing: no task fails because nobody could be told of it. */
function logOf(log: Log): Log {
  const line = (level: keyof Log) => {
    if (typeof log?.[level] !== 'function') throw new TypeError('log must have the functions info, warn and error.')
    return (...parts: unknown[]) => {
      try {
        log[level](...parts)
      } catch {
        // Nobody is left to be told.
      }
    }
  }
  return { info: line('info'), warn: line('warn'), error: line('error') }
}

/** How many workers of this process have no name of their own. */
let nameless = 0

/** Return the host's name, as far as it may stand in one of ours, and the process id; another one counts them. */
function defaultName(): string {
  nameless += 1
  const end = `-${process.pid}` + (nameless > 1 ? `-${nameless}` : '')
  return hostname().replace(/[^0-9A-Za-z._-]/g, '-').slice(0, MOST_NAME_BYTES - end.length) + end
}
