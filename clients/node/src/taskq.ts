/** What applications call: enqueue tasks, and read what became of them. */
import { Broker } from './broker.js'
import { REPLY_MS } from './connection.js'
import { DEFAULT_BACKOFF, DEFAULT_MAX_ATTEMPTS, DEFAULT_RESULT_TTL_MS, Envelope } from './envelope.js'
import { EnqueueError, InvalidName, RequestError, TaskqError } from './errors.js'
import { newId } from './ids.js'
import { isRecord, kindOf, repr } from './json/repr.js'
import { checkId, checkIdempotencyKey, checkPriority, checkQueueName, checkTaskName } from './names.js'
import * as options from './options.js'
import type { Enqueued, NewRecord, State } from './records.js'
import { type TaskResult, resultFrom } from './results.js'
import { type Backoff, type Seconds, RetryPolicy } from './retry.js'

/** Most ms to wait for a reply; a timer of Node.js counts no more than 25 days. */
const LONGEST_REPLY_MS = 86_400_000
/** Times that an alias may lead to another. */
const LONGEST_CHAIN = 10
/** Characters of a wrong value that are shown. */
const SHOWN = 50

/** What a queue and its clients must agree on: as in `OPTIONS` of Django's `TASKS`, times in milliseconds. */
export interface TaskqOptions {
  /** `redis://`, `rediss://` or `unix://`, as for Python; `redis://localhost:6379/0` by default. */
  url?: string
  /** What all keys begin with; `taskq` by default. */
  namespace?: string
  /** Most bytes of a task's arguments with all that goes along, and of a result; 1,000,000 by default. */
  maxPayloadBytes?: number
  /** Ms that an idempotency key is remembered after its task succeeded; a day by default. */
  idempotencyTtlMs?: number
  /** Whether numbers and keys are read so that they can be written again byte for byte: see `Float`. */
  exact?: boolean
  /** Ms to wait for a connection, and for a reply; 5,000 by default. */
  replyMs?: number
}

/** How one task is enqueued. */
export interface EnqueueOptions {
  /** Named arguments. */
  kwargs?: { readonly [name: string]: unknown } | ReadonlyMap<string, unknown>
  /** `default` by default. */
  queue?: string
  /** From -100 to 100, the larger comes first; 0 by default. */
  priority?: number
  /** Ms until it may run, on Redis's clock. */
  delayMs?: number
  /** The moment from which on it may run. */
  runAt?: Date
  /** Of several tasks with one key, only the first is stored. */
  idempotencyKey?: string
  /** Ms that the key is remembered after the task succeeded, where it isn't as long as `TaskqOptions` say. */
  idempotencyTtlMs?: number
  /** 3 by default. */
  maxAttempts?: number
  /** Seconds between attempts, or a policy; `{ base: 1, factor: 2, cap: 300, jitter: 'equal' }` by default. */
  backoff?: Seconds | Backoff
  /** Ms that one attempt may take; no limit by default. */
  timeoutMs?: number
  /** Ms that the result is kept, a day by default; 0 keeps none. */
  resultTtlMs?: number
  /** The record's id, to enqueue again what an `EnqueueError` names: it does nothing where that was stored. */
  id?: string
}

/** A task among many, with how it is enqueued. */
export interface Task extends EnqueueOptions {
  name: string
  args?: readonly unknown[]
}

/** What became of an enqueued task: TAKEN means that `id` is that of the task which holds its idempotency key. */
export interface Handle {
  id: string
  word: Enqueued['word']
  state: State
  enqueuedAt: Date
}

/** A queue, for those who enqueue and ask for results. It connects when first used; `close` it to end. */
export class Taskq {
  /** @internal */
  readonly broker: Broker
  readonly maxPayloadBytes: number
  readonly exact: boolean
  readonly #idempotencyTtlMs: number

  constructor(given: TaskqOptions = {}) {
    options.checkNames('Taskq', given, [
      'url', 'namespace', 'maxPayloadBytes', 'idempotencyTtlMs', 'exact', 'replyMs',
    ])
    const { url = 'redis://localhost:6379/0', namespace, exact = false, replyMs = REPLY_MS } = given
    this.exact = options.flag('exact', exact)
    this.maxPayloadBytes = options.count('maxPayloadBytes', given.maxPayloadBytes ?? 1_000_000)
    this.#idempotencyTtlMs = options.milliseconds('idempotencyTtlMs', given.idempotencyTtlMs ?? 86_400_000)
    const patience = options.milliseconds('replyMs', replyMs, 1, LONGEST_REPLY_MS)
    this.broker = new Broker(url, namespace, { exact, replyMs: patience })
  }

  /**
   * Enqueue a task.
   *
   * Throws before anything is sent where something can't be stored, and `EnqueueError` when Redis didn't confirm it.
   */
  async enqueue(name: string, args: readonly unknown[] = [], given: EnqueueOptions = {}): Promise<Handle> {
    const [handle] = await this.#push([this.#record(name, args, given)])
    return handle!
  }

  /**
   * Enqueue many tasks, in their order and in a few round trips; nothing is stored when one of them is refused.
   *
   * Throws `EnqueueError` with the ids of those that Redis didn't confirm; those before them are stored.
   */
  async enqueueMany(tasks: Iterable<Task>): Promise<Handle[]> {
    // Array.from would make nothing of a promise, and nobody would know.
    if (typeof tasks !== 'object' || tasks === null || !(Symbol.iterator in tasks)) {
      throw new TypeError(`enqueueMany() takes an array of tasks, or what else can be iterated, not ${kindOf(tasks)}.`)
    }
    const records = Array.from(tasks, (task, index) => {
      try {
        options.checkObject('enqueueMany()', task)
        const { name, args = [], ...given } = task
        return this.#record(name, args, given)
      } catch (error) {
        // One of the application's own may be frozen.
        if (error instanceof Error) Reflect.set(error, 'message', `tasks[${index}]: ${error.message}`)
        throw error
      }
    })
    return this.#push(records)
  }

  /** Return what is known of a task, by its id or that of a duplicate of it; null when there is none. */
  async result(id: string): Promise<TaskResult | null> {
    let wanted = id
    try {
      checkId(id)
    } catch (error) {
      if (error instanceof InvalidName) return null
      throw error
    }
    for (let links = 0; links < LONGEST_CHAIN; links += 1) {
      const found = await this.broker.read(wanted)
      if (typeof found !== 'string') return found && resultFrom(found)
      wanted = found
    }
    return null
  }

  /** End waits, let what was sent be answered, and close the connections. */
  close(): Promise<void> {
    return this.broker.close()
  }

  async #push(records: NewRecord[]): Promise<Handle[]> {
    const handles: Handle[] = []
    let cause: TaskqError | null = null
    let maybeStored = false
    for await (const page of this.broker.enqueue(records)) {
      if (page instanceof TaskqError) {
        cause ??= page
        maybeStored ||= isMaybeExecuted(page)
      } else if (cause) {
        maybeStored = true // This page was on its way when that before it failed.
      } else {
        handles.push(...page.map(handleOf))
      }
    }
    if (!cause) return handles
    throw new EnqueueError(records.slice(handles.length).map((record) => record.id), maybeStored, cause)
  }

  /** Return the record to store; all that can be refused is refused here. */
  #record(name: string, args: readonly unknown[], given: EnqueueOptions): NewRecord {
    options.checkNames('enqueue()', given, OPTION_NAMES)
    checkTaskName(name)
    const { kwargs = {}, idempotencyKey: key = null, delayMs, runAt } = given
    if (!Array.isArray(args) || !isRecord(kwargs)) {
      throw new TypeError(`${name}: takes an array and an object, not ${shown(args)} and ${shown(kwargs)}.`)
    }
    if (delayMs !== undefined && runAt !== undefined) throw new TypeError(`${name}: give delayMs or runAt, not both.`)
    const atMs = runAt === undefined ? null : options.moment('runAt', runAt)
    const envelope = new Envelope({ name, args, kwargs, runAfter: atMs, ...policyOf(given) })
    return {
      id: given.id === undefined ? newId() : checkId(given.id),
      queue: checkQueueName(given.queue ?? 'default'),
      envelope: envelope.toBytes(this.maxPayloadBytes),
      priority: checkPriority(given.priority ?? 0),
      delayMs: delayMs === undefined ? 0 : options.delay('delayMs', delayMs),
      atMs: atMs ?? 0,
      key: key === null ? null : checkIdempotencyKey(key),
      keyTtlMs: options.milliseconds('idempotencyTtlMs', given.idempotencyTtlMs ?? this.#idempotencyTtlMs),
    }
  }
}

const OPTION_NAMES = [
  'kwargs', 'queue', 'priority', 'delayMs', 'runAt', 'idempotencyKey', 'idempotencyTtlMs', 'maxAttempts', 'backoff',
  'timeoutMs', 'resultTtlMs', 'id',
] as const

function policyOf({ maxAttempts, backoff, timeoutMs, resultTtlMs }: EnqueueOptions) {
  return {
    maxAttempts: maxAttempts === undefined ? DEFAULT_MAX_ATTEMPTS : options.count('maxAttempts', maxAttempts),
    backoff: backoff === undefined ? DEFAULT_BACKOFF : RetryPolicy.parse(backoff),
    timeoutMs: timeoutMs === undefined ? null : options.milliseconds('timeoutMs', timeoutMs, 1),
    resultTtlMs: resultTtlMs === undefined ? DEFAULT_RESULT_TTL_MS : options.milliseconds('resultTtlMs', resultTtlMs),
  }
}

function shown(value: unknown): string {
  return repr(value).slice(0, SHOWN)
}

function handleOf({ word, id, state, enqueuedAt }: Enqueued): Handle {
  return { id, word, state, enqueuedAt: new Date(enqueuedAt) }
}

function isMaybeExecuted(error: TaskqError): boolean {
  return !(error instanceof RequestError) || error.maybeExecuted
}
