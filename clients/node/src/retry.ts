/** When a failed attempt is tried again: attempt in, delay or null out. */
import { Float } from './json/numbers.js'
import { isRecord, repr } from './json/repr.js'

/** What a policy takes for a number; a `Float` is written as one. */
export type Seconds = number | bigint | Float
/** `none` keeps the delay, `equal` takes between half of it and all, `full` between nothing and all. */
export type Jitter = 'none' | 'equal' | 'full'

/**
 * Exponential backoff, in seconds: `min(base * factor^(n-1), cap)` after the n-th attempt, with jitter.
 *
 * Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export interface Backoff {
  base?: Seconds
  factor?: Seconds
  cap?: Seconds
  jitter?: Jitter
}

/** Largest base and cap in seconds, a hundred years; with it every due time is an exact score. */
export const LONGEST_DELAY = 3_155_760_000
/** Attempts after which the delay is the cap. */
const LARGEST_EXPONENT = 60

const JITTERS = ['none', 'equal', 'full']
const MOST = { base: LONGEST_DELAY, factor: Number.MAX_VALUE, cap: LONGEST_DELAY }
const FIELDS = ['base', 'factor', 'cap', 'jitter']

/** A backoff of which every field is there, and is one. */
export class RetryPolicy {
  readonly base: Seconds
  readonly factor: Seconds
  readonly cap: Seconds
  readonly jitter: Jitter

  /** Make a policy; throw RangeError for a field that is none. */
  constructor({ base = 1, factor = 2, cap = 300, jitter = 'equal' }: Backoff = {}) {
    for (const [name, value] of Object.entries({ base, factor, cap })) {
      const most = MOST[name as keyof typeof MOST]
      if (!isNumber(value) || !isWithin(value, most)) {
        throw new RangeError(`backoff: ${name} must be a number from 0 to ${repr(most)}, not ${repr(value)}.`)
      }
    }
    if (!JITTERS.includes(jitter)) {
      throw new RangeError(`backoff: jitter must be one of ${JITTERS.join(', ')}, not ${repr(jitter)}.`)
    }
    this.base = base
    this.factor = factor
    this.cap = cap
    this.jitter = jitter
  }

  /** Return the policy that a number (the same delay each time), an object or a policy stands for. */
  static parse(value: unknown): RetryPolicy {
    if (value instanceof RetryPolicy) return value
    if (isNumber(value)) return new RetryPolicy({ base: value, factor: 1, cap: value, jitter: 'none' })
    if (!isRecord(value)) throw new RangeError(`backoff must be a number of seconds or an object, not ${repr(value)}.`)
    const fields = new Map(value instanceof Map ? value : Object.entries(value))
    const unknown = [...fields.keys()].find((key) => !FIELDS.includes(key))
    if (unknown !== undefined) {
      throw new RangeError(`backoff has no key ${repr(unknown)}; it takes ${FIELDS.join(', ')}.`)
    }
    return new RetryPolicy(Object.fromEntries(fields))
  }

  /** Tell whether another policy is the same: a number and a `Float` of one value are. */
  equals({ base, factor, cap, jitter }: RetryPolicy): boolean {
    const isSame = (one: Seconds, other: Seconds) => Number(one) === Number(other)
    return isSame(this.base, base) && isSame(this.factor, factor) && isSame(this.cap, cap) && this.jitter === jitter
  }

  /** Return the language-neutral form that an envelope carries. */
  toObject(): Required<Backoff> {
    const { base, factor, cap, jitter } = this
    return { base, factor, cap, jitter }
  }

  /** Return the milliseconds to wait after the n-th attempt; `random` is the caller's, from 0 to 1. */
  delayMs(attempt: number, random: number): number {
    const base = Number(this.base)
    const power = attempt <= LARGEST_EXPONENT ? Number(this.factor) ** (attempt - 1) : Infinity
    let delay = base > 0 ? Math.min(base * power, Number(this.cap)) : 0
    if (this.jitter === 'equal') delay = delay / 2 + (random * delay) / 2
    else if (this.jitter === 'full') delay *= random
    return roundHalfEven(delay * 1000)
  }
}

/** Return the milliseconds until the next attempt, or null when all are used up. */
export function decide(attempt: number, maxAttempts: number, policy: RetryPolicy, random: number): number | null {
  return attempt >= maxAttempts ? null : policy.delayMs(attempt, random)
}

/** Round as Python does: what lies in the middle goes to the even neighbour. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor
}

function isWithin(value: Seconds, most: number): boolean {
  const plain = value.valueOf() // as it is: a bigint that is barely too large isn't rounded down
  return plain >= 0 && plain <= most
}

function isNumber(value: unknown): value is Seconds {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof Float
}
