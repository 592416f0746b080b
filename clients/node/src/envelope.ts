/** The task string: a head of lines that the scripts read, an empty line, and the envelope, which only clients read. */
import { isUtf8 } from 'node:buffer'

import { UnknownVersion, UnreadableRecord } from './errors.js'
import { Float, isInteger } from './json/numbers.js'
import { type Json, decodeUtf8, parse } from './json/reader.js'
import { isRecord, repr } from './json/repr.js'
import { stringify } from './json/writer.js'
import { RetryPolicy } from './retry.js'

const VERSION = 1
export const DEFAULT_MAX_ATTEMPTS = 3
export const DEFAULT_RESULT_TTL_MS = 86_400_000
export const DEFAULT_BACKOFF = new RetryPolicy()
/** Longest time in ms that an envelope may name, about three centuries; a longer one is cut to it. */
export const LONGEST_MS = 1e13

/** Characters of a wrong value that are shown. */
const SHOWN = 100
const SEPARATOR = '\n\n'
/** A field that takes an integer, with a float. */
const FLOAT_FIELD = /"(?:v|run_after|max_attempts|timeout_ms|result_ttl_ms)"\s*:\s*-?\d+[.eE]/
const INTEGER = /^\s*[+-]?\d+(?:_\d+)*\s*$/

/** What the scripts know of a record. `enqueuedAt` is in ms on Redis's clock. */
export interface Head {
  enqueuedAt: number
  priority: number
  queue: string
  key: string | null
  keyTtlMs: number
  recordAlias: string | null
}

/** Return the lines that follow the first, which the `enqueue` script writes. */
export function headLines(key: string | null, keyTtlMs: number, recordAlias: string | null = null): string {
  const lines = key === null ? '' : `key ${keyTtlMs} ${key}\n`
  return recordAlias === null ? lines : `${lines}record ${recordAlias}\n`
}

/** Return the head and the envelope's bytes; of an unreadable head, the given queue and all bytes. */
export function parseTask(task: Buffer, queue = ''): [Head, Buffer] {
  const end = task.indexOf(SEPARATOR)
  const lines = end < 0 ? null : task.subarray(0, end)
  const head = lines === null || !isUtf8(lines) ? null : parseHead(lines.toString())
  if (head !== null) return [head, task.subarray(end + SEPARATOR.length)]
  return [{ enqueuedAt: 0, priority: 0, queue, key: null, keyTtlMs: 0, recordAlias: null }, task]
}

function parseHead(lines: string): Head | null {
  const [first, others] = partition(lines, '\n')
  const [enqueuedAt, rest] = partition(first, ' ')
  const [priority, queue] = partition(rest, ' ')
  const known = new Map(others === '' ? [] : others.split('\n').map((line) => partition(line, ' ')))
  const [ttl, key] = partition(known.get('key') ?? '', ' ')
  const head = {
    enqueuedAt: integer(enqueuedAt),
    priority: integer(priority),
    queue,
    key: key || null,
    keyTtlMs: integer(ttl || '0'),
    recordAlias: known.get('record') || null,
  }
  const isWhole = rest.includes(' ') && !Number.isNaN(head.enqueuedAt + head.priority + head.keyTtlMs)
  return isWhole ? head : null
}

function partition(text: string, separator: string): [string, string] {
  const end = text.indexOf(separator)
  return end < 0 ? [text, ''] : [text.slice(0, end), text.slice(end + 1)]
}

/** Read an integer as Python does. */
function integer(text: string): number {
  return INTEGER.test(text) ? Number(text.replaceAll('_', '')) + 0 : NaN // no -0
}

type Args = readonly unknown[]
type Members = object

/** The fields of an envelope; null where nothing was said. */
export interface Fields {
  name: string
  args?: Args
  kwargs?: Members
  runAfter?: number | null
  maxAttempts?: number
  backoff?: RetryPolicy
  timeoutMs?: number | null
  resultTtlMs?: number
  atomic?: string | null
  meta?: Members
}

/** What was enqueued: which task, with what, and under which policy. `runAfter` is in ms since the epoch. */
export class Envelope {
  readonly name: string
  readonly args: Args
  readonly kwargs: Members
  readonly runAfter: number | null
  readonly maxAttempts: number
  readonly backoff: RetryPolicy
  readonly timeoutMs: number | null
  readonly resultTtlMs: number
  /** The alias of the database in which its effects and the mark that it is done are one transaction. */
  readonly atomic: string | null
  readonly meta: Members

  constructor(fields: Fields) {
    this.name = fields.name
    this.args = fields.args ?? []
    this.kwargs = fields.kwargs ?? {}
    this.runAfter = fields.runAfter ?? null
    this.maxAttempts = fields.maxAttempts ?? DEFAULT_MAX_ATTEMPTS
    this.backoff = fields.backoff ?? DEFAULT_BACKOFF
    this.timeoutMs = fields.timeoutMs ?? null
    this.resultTtlMs = fields.resultTtlMs ?? DEFAULT_RESULT_TTL_MS
    this.atomic = fields.atomic ?? null
    this.meta = fields.meta ?? {}
  }

  /**
   * Return the JSON document, without the fields that are at their default.
   *
   * Throw TypeError or RangeError when its arguments can't travel, or it takes more than `mostBytes`.
   */
  toBytes(mostBytes = Infinity): Buffer {
    let text = `{"v":${VERSION},"name":${stringify(this.name, 'name')}`
    const add = (field: string, value: unknown, what = field) => {
      text += `,"${field}":${stringify(value, what)}`
    }
    if (this.args.length > 0) add('args', this.args, `${this.name}: args`)
    if (hasMembers(this.kwargs)) add('kwargs', this.kwargs, `${this.name}: kwargs`)
    if (this.runAfter !== null) add('run_after', this.runAfter)
    if (this.maxAttempts !== DEFAULT_MAX_ATTEMPTS) add('max_attempts', this.maxAttempts)
    if (!this.backoff.equals(DEFAULT_BACKOFF)) add('backoff', this.backoff.toObject())
    if (this.timeoutMs !== null) add('timeout_ms', this.timeoutMs)
    if (this.resultTtlMs !== DEFAULT_RESULT_TTL_MS) add('result_ttl_ms', this.resultTtlMs)
    if (this.atomic !== null) add('atomic', this.atomic)
    if (hasMembers(this.meta)) add('meta', this.meta)
    const bytes = Buffer.from(text + '}')
    if (bytes.length <= mostBytes) return bytes
    throw new RangeError(
      `${this.name}: the arguments take ${bytes.length} bytes with all that goes along, ` +
        `and max_payload_bytes is ${mostBytes}. Store them elsewhere and pass a reference.`,
    )
  }

  /**
   * Return the envelope, or throw `UnreadableRecord` that says what is wrong with it.
   *
   * With `exact`, its arguments are what is written again as it was: see `parse`.
   */
  static fromBytes(data: Buffer, exact = false): Envelope {
    const [document, checked] = read(data, exact)
    const version = field(checked, 'v')
    if (version !== undefined && !isVersion(version)) {
      throw new UnknownVersion(`The envelope has version ${repr(version)}; this release reads ${VERSION}.`)
    }
    const values: Record<string, unknown> = {}
    for (const [name, value] of entries(checked)) {
      const known = FIELDS.get(name)
      if (known === undefined || value === null) continue
      if (!known.accepts(value)) throw new UnreadableRecord(`The envelope's ${name} is ${shown(value)}.`)
      values[known.property] = known.take(field(document, name))
    }
    if (!values.name) throw new UnreadableRecord('The envelope has no name.')
    if (values.backoff !== undefined) values.backoff = readBackoff(values.backoff)
    return new Envelope(values as unknown as Fields)
  }
}

/** Return the document twice: as it is wanted, and so that a float can't be taken for an integer. */
function read(data: Buffer, exact: boolean): [object, object] {
  let document: Json
  let checked: Json
  try {
    const text = decodeUtf8(data)
    document = checked = parse(text, exact)
    if (!exact && FLOAT_FIELD.test(text)) checked = parse(text, true)
  } catch (error) {
    throw new UnreadableRecord(`The envelope is no JSON: ${(error as Error).message}`)
  }
  if (isRecord(document) && isRecord(checked)) return [document, checked]
  throw new UnreadableRecord('The envelope is no JSON object.')
}

function readBackoff(value: unknown): RetryPolicy {
  try {
    return RetryPolicy.parse(value)
  } catch (error) {
    throw new UnreadableRecord(`The envelope's backoff can't be read: ${(error as Error).message}`)
  }
}

/** How a field is called here, which values it takes, and what becomes of one. */
interface Known {
  property: keyof Fields
  accepts: (value: unknown) => boolean
  take: (value: unknown) => unknown
}

function same(property: keyof Fields, accepts: (value: unknown) => boolean): Known {
  return { property, accepts, take: (value) => value }
}

function whole(property: keyof Fields, least: number, most = Number.MAX_SAFE_INTEGER): Known {
  const accepts = (value: unknown) =>
    typeof value === 'bigint' ? value >= least : typeof value === 'number' && isInteger(value) && value >= least
  return { property, accepts, take: (value) => Math.min(Math.max(Number(value), Number.MIN_SAFE_INTEGER), most) }
}

const isText = (value: unknown) => typeof value === 'string'
const FIELDS = new Map<string, Known>([
  ['name', same('name', isText)],
  ['args', same('args', Array.isArray)],
  ['kwargs', same('kwargs', isRecord)],
  ['run_after', whole('runAfter', -Infinity)],
  ['max_attempts', whole('maxAttempts', 1)],
  ['backoff', same('backoff', isRecord)],
  ['timeout_ms', whole('timeoutMs', 1, LONGEST_MS)],
  ['result_ttl_ms', whole('resultTtlMs', 0, LONGEST_MS)],
  ['atomic', same('atomic', isText)],
  ['meta', same('meta', isRecord)],
])

/** Tell whether a version is the one that is read here, as Python compares: 1.0 and True are 1 too. */
function isVersion(version: unknown): boolean {
  return version === true || (version instanceof Float ? version.valueOf() : version) === VERSION
}

function entries(members: object): Iterable<[string, unknown]> {
  return members instanceof Map ? members : Object.entries(members)
}

function field(members: object, name: string): unknown {
  if (members instanceof Map) return members.get(name)
  return Object.hasOwn(members, name) ? (members as Record<string, unknown>)[name] : undefined
}

function hasMembers(members: object): boolean {
  return (members instanceof Map ? members.size : Object.keys(members).length) > 0
}

function shown(value: unknown): string {
  return [...repr(value)].slice(0, SHOWN).join('')
}
