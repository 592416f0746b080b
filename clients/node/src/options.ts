/** Checks of what applications give; each returns the value in the form that is stored, or throws. */

import { LONGEST_MS } from './envelope.js'

/** The years that Python's dates have, in ms. */
const FIRST_MS = -62_135_596_800_000
const LAST_MS = 253_402_300_799_999

/** Throw `TypeError` for a name that isn't known: it would be read over, and meant something. */
export function checkNames(what: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) throw new TypeError(`${what} has no option '${name}'; it takes ${known.join(', ')}.`)
  }
}

/** Return a whole number from 1. */
export function count(name: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 1) {
    throw new RangeError(`${name} must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}, not ${String(value)}.`)
  }
  return value as number
}

/** Return whole milliseconds, rounded up, so that no time but 0 becomes 0. */
export function milliseconds(name: string, value: unknown, least = 0, most = LONGEST_MS): number {
  if (typeof value !== 'number' || !(value >= least && value <= most)) {
    throw new RangeError(`${name} must be milliseconds from ${least} to ${most}, not ${String(value)}.`)
  }
  return Math.ceil(value)
}

/** Return whole milliseconds until a task may run; a moment that is over is now. */
export function delay(name: string, value: unknown): number {
  if (typeof value !== 'number' || Number.isNaN(value)) {
    throw new RangeError(`${name} must be a number of milliseconds, not ${String(value)}.`)
  }
  if (Date.now() + value > LAST_MS) throw new RangeError(`${name} lies beyond the year 9999.`)
  return Math.max(Math.ceil(value), 0)
}

/** Return a date in ms since the epoch. */
export function moment(name: string, value: unknown): number {
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw new TypeError(`${name} must be a valid Date, not ${String(value)}.`)
  }
  const ms = value.getTime()
  if (ms < FIRST_MS || ms > LAST_MS) throw new RangeError(`${name} must lie in the years 1 to 9999.`)
  return ms
}
