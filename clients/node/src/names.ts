/** What may stand in a key of Redis; the keys themselves are made by the scripts. */
import { InvalidName } from './errors.js'
import { isPrintable, repr } from './json/repr.js'

/** Most bytes that a queue or worker name may have. */
const NAME_BYTES = 100
/** Most bytes that a child's id may have: its worker's name, a dot and 8 characters. */
const CHILD_BYTES = NAME_BYTES + 9
/** Largest priority, and largest negative one. */
const LARGEST_PRIORITY = 100
/** Most bytes that an idempotency key may have. */
const KEY_BYTES = 255
/** Most characters of a task's name. */
const MAX_TASK_NAME_LENGTH = 255

/** Characters of a name that are shown where it is too long. */
const SHOWN = 20

const CONTROL = /[\x00-\x1f\x7f-\x9f\ud800-\udfff]/u
const RESERVED = /[{}:*]/
const ID = /^[0-9A-Za-z]{1,63}$/

/** Return a namespace, or throw `InvalidName`. */
export function checkNamespace(name: unknown): string {
  return check('The namespace', name, NAME_BYTES, true)
}

/** Return a queue name, or throw `InvalidName`. */
export function checkQueueName(name: unknown): string {
  return check('The queue name', name, NAME_BYTES, true)
}

/** Tell whether a queue may be called so. */
export function isQueueName(name: string): boolean {
  try {
    return checkQueueName(name) === name
  } catch {
    return false
  }
}

/** Return a worker name, or throw `InvalidName`; it stands in log lines, so it has no spaces. */
export function checkWorkerName(name: unknown): string {
  return withoutSpaces('The worker name', check('The worker name', name, NAME_BYTES, true))
}

/** Return the id of a child, or throw `InvalidName`. */
export function checkChildId(name: unknown): string {
  return withoutSpaces("The child's id", check("The child's id", name, CHILD_BYTES, true))
}

/** Return an idempotency key, or throw `InvalidName`. */
export function checkIdempotencyKey(key: unknown): string {
  return check('The idempotency key', key, KEY_BYTES, false)
}

/** Return a priority, or throw `InvalidName`; with more than ±100, a score would lose its last digits. */
export function checkPriority(priority: unknown): number {
  if (typeof priority !== 'number' || !Number.isInteger(priority) || Math.abs(priority) > LARGEST_PRIORITY) {
    const range = `-${LARGEST_PRIORITY} to ${LARGEST_PRIORITY}`
    throw new InvalidName(`The priority must be an integer from ${range}, not ${repr(priority)}.`)
  }
  return priority + 0 // not -0
}

/** Return the id of a record, or throw `InvalidName`. */
export function checkId(recordId: unknown): string {
  if (typeof recordId !== 'string' || !ID.test(recordId)) {
    throw new InvalidName(`A record's id is 1 to 63 letters and digits, not ${repr(recordId)}.`)
  }
  return recordId
}

/** Return the name of a task in the queue, or throw `InvalidName`. */
export function checkTaskName(name: unknown): string {
  // A text has no more characters than UTF-16 units, and at least half as many: the long ones needn't be counted.
  const isShort = typeof name === 'string' && name.length <= 2 * MAX_TASK_NAME_LENGTH
  if (!isShort || name === '' || [...name].length > MAX_TASK_NAME_LENGTH || !isPrintable(name)) {
    throw new InvalidName(`name must be 1 to ${MAX_TASK_NAME_LENGTH} printable characters, not ${repr(name)}.`)
  }
  return name
}

function check(what: string, name: unknown, limit: number, reserved: boolean): string {
  if (typeof name !== 'string' || name === '') {
    throw new InvalidName(`${what} must be a non-empty string, not ${repr(name)}.`)
  }
  if (CONTROL.test(name) || (reserved && RESERVED.test(name))) {
    const without = reserved ? 'control characters and { } : *' : 'control characters'
    throw new InvalidName(`${what} ${repr(name)} must be without ${without}.`)
  }
  const size = Buffer.byteLength(name)
  if (size > limit) {
    const shown = [...name].slice(0, SHOWN).join('')
    throw new InvalidName(`${what} ${repr(shown)}… has ${size} bytes; at most ${limit} are allowed.`)
  }
  return name
}

function withoutSpaces(what: string, name: string): string {
  if (name.includes(' ')) throw new InvalidName(`${what} ${repr(name)} must be without spaces.`)
  return name
}
